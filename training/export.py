"""A checkpoint's model in Hugging Face format: what transformers, vLLM, and `model:` of another run read."""

import json
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from training.checkpoints import TRAINER, CheckpointError, complete_by_step, refuse_damaged
from training.errors import first_line
from training.trainer.network import DOWN, DTYPES, SCALE, UP, adapter_of, added, is_adapter, load_network

POLICY = "networks/policy."  # what names of the policy's weights begin with, in a trainer's checkpoint
SHARD_BYTES = 5 << 30
READ_BYTES = 1 << 30  # as saved, in memory beside the model
NOT_COPIED = ("*.safetensors", "*.safetensors.index.json", "COMPLETE*", ".*")  # of the base model's folder


class ExportError(ValueError):
    """A model that cannot be written as asked; the message says what there is."""


def export_run(
    run_dir: Path,
    out: Path,
    *,
    step: int | None = None,
    dtype: str = "bfloat16",
    base_model: Path | None = None,
) -> None:
    """`export_model` of a run's newest checkpoint, or that of a step, to a folder that does not exist yet.

    `base_model`: by default what the run folder says. Raises ExportError, CheckpointError.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out} is there already")
    trainer_folder = _checkpoint(run_dir, step)
    base_model = base_model or base_model_of(run_dir)
    if not (base_model / "config.json").is_file():
        raise ExportError(f"the base model {base_model} is not there; --base-model says where it is now")
    out.parent.mkdir(parents=True, exist_ok=True)
    export_model(trainer_folder, base_model, out, dtype=dtype)


def _checkpoint(run_dir: Path, step: int | None) -> Path:
    """The trainer's part of the checkpoint."""
    if not (steps := complete_by_step(run_dir / "checkpoints")):
        raise ExportError(f"{run_dir} has no complete checkpoint")
    if step is not None and step not in steps:
        raise ExportError(
            f"{run_dir} has no checkpoint of step {step}; there are: {', '.join(map(str, steps))}"
        )
    folder = steps[max(steps) if step is None else step]
    refuse_damaged(folder)
    return folder / TRAINER


def base_model_of(run_dir: Path) -> Path:
    """What the run started from. Raises ExportError where its folder does not say so."""
    file = run_dir / "driver.json"
    try:
        return Path(json.loads(file.read_text())["model"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ExportError(
            f"{file} does not say which model the run started from; --base-model does"
        ) from None


def export_model(trainer_folder: Path, base_model: Path, out: Path, *, dtype: str = "bfloat16") -> None:
    """Write the model of a checkpoint (the trainer's part of it) to the folder `out`: weights in `dtype`, a tied head
    once; configuration, tokenizer and the like as in `base_model`, from which the run started.

    Needs no process group, whatever number of ranks has saved. `out` is replaced when the new one is whole. Raises
    CheckpointError where the checkpoint is damaged or of another model.
    """
    config = AutoConfig.from_pretrained(base_model, local_files_only=True)  # nosec B615  # local files only
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=DTYPES[dtype])
    weights = _with_adapters(dict(_read(trainer_folder, DTYPES[dtype])), base_model, DTYPES[dtype])
    _check_complete(trainer_folder, weights, model)
    if config.get_text_config().tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    partial = out.parent / f".{out.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        model.save_pretrained(partial, state_dict=weights, max_shard_size=SHARD_BYTES)
        _copy_the_rest(base_model, partial, dtype)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)


def _read(folder: Path, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """The policy's weights by the model's own names; some at a time are in memory as they were saved."""
    with _named(folder):
        saved: Any = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
        waiting: dict[str, Tensor] = {}
        for name in [name for name in saved if name.startswith(POLICY)]:
            waiting[name] = torch.empty(saved[name].size, dtype=saved[name].properties.dtype)
            if sum(tensor.nbytes for tensor in waiting.values()) >= READ_BYTES:
                yield from _loaded(folder, waiting, dtype)
                waiting = {}
        yield from _loaded(folder, waiting, dtype)


def _with_adapters(saved: dict[str, Tensor], base_model: Path, dtype: torch.dtype) -> dict[str, Tensor]:
    """The weights where all were trained, else the base model's with the adapters added; those of other layers stay
    adapters."""
    if not any(map(is_adapter, saved)):
        return saved
    found = dict(saved)
    for name, weight in load_network(base_model).state_dict().items():
        if (adapter := adapter_of(name, saved)) is None:
            found[name] = weight.to(dtype)
        elif (len(adapter[1]), adapter[0].shape[1]) == weight.shape:
            found[name] = added(weight, *adapter).to(dtype)
            for part in (DOWN, UP, SCALE):
                del found[name.removesuffix("weight") + part]
    return found


def _loaded(folder: Path, tensors: dict[str, Tensor], dtype: torch.dtype) -> list[tuple[str, Tensor]]:
    with warnings.catch_warnings():  # it says that one process reads, which is so
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        if tensors:
            dcp.load(tensors, checkpoint_id=folder, no_dist=True)
    return [
        (name.removeprefix(POLICY), tensor if is_adapter(name) else tensor.to(dtype))
        for name, tensor in tensors.items()
    ]


@contextmanager
def _named(folder: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a damaged file is reported as one of many types
        raise CheckpointError(f"{folder} cannot be read: {first_line(error)}") from error


def _check_complete(folder: Path, weights: dict[str, Tensor], model: Any) -> None:
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in weights.items()}
    different = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    if different:
        name = different[0]
        raise CheckpointError(
            f"{folder} is of another model: {name} is {found.get(name, 'not there')}, "
            f"the base model has {expected.get(name, 'none')} ({len(different)} tensors differ)"
        )


def _copy_the_rest(base_model: Path, out: Path, dtype: str) -> None:
    """Files beside the weights, and the base model's own configuration with the new dtype: readers of another version
    know it better than what transformers makes of it."""
    (out / "generation_config.json").unlink(missing_ok=True)
    for file in base_model.iterdir():
        if file.is_file() and not any(file.match(pattern) for pattern in NOT_COPIED):
            shutil.copy(file, out / file.name)
    config = json.loads((base_model / "config.json").read_text())
    config["torch_dtype" if "torch_dtype" in config else "dtype"] = dtype
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
