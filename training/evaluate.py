"""`python -m training evaluate`: a checkpoint, or any model, on a benchmark. No Ray, no server."""

import asyncio
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training import harness
from training.benchmarks import PREFIX, Benchmark, contamination, make_benchmark
from training.chat import ChatTemplate, ChatTemplateError
from training.checkpoints import (
    MARKER,
    TRAINER,
    Checkpoint,
    CheckpointError,
    complete_by_step,
    newest_checkpoint,
    read_checkpoint,
    refuse_damaged,
)
from training.codec import Codec
from training.engine_choice import choose_for, is_installed
from training.engines import make_engine
from training.evaluation import evaluation_metrics, sampled
from training.models import check_model, context_tokens, default_home, find_model, parameter_count
from training.recipe import Recipe, apply_overrides, blame_field
from training.rollouts import Group, Rollouts
from training.tasks import Prompt, TaskError, make_task
from training.usable import demanding_verifiers_of, usable_held_out
from training.verifiers.service import Verification

DOWNLOAD_TIMEOUT_SECONDS = 6 * 3600.0


@dataclass(frozen=True)
class Subject:
    """What is measured. `base`: the model's folder, or that of the model which the checkpoint's run started from."""

    base: Path
    recipe: Recipe
    checkpoint: Checkpoint | None = None


def subject_of(name: str, overrides: Mapping[str, Any], home: Path) -> Subject:
    """A checkpoint's folder, a run's (then its newest), or a model by name or folder, with the recipe that says engine,
    lengths and temperature. Raises CheckpointError, ModelError or RecipeError."""
    checkpoint = _checkpoint(Path(name))
    if checkpoint is None:
        base = find_model(name, home)
        recipe = _recipe_for(base)
    else:
        base, recipe = _base_of(checkpoint, home), checkpoint.recipe
    recipe = apply_overrides(recipe, {"model": str(base), **overrides})
    rollout = recipe.rollout
    check_model(str(base), home, min_context=rollout.max_sequence_tokens, chat_template=rollout.chat_template)
    if recipe.engine.type == "auto":
        engine = choose_for(recipe, parameter_count(base), has_vllm=is_installed("vllm")).engine
        recipe = apply_overrides(recipe, {"engine.type": engine})
    return Subject(base, recipe, checkpoint)


def _checkpoint(path: Path) -> Checkpoint | None:
    """None where it is neither a checkpoint nor a run's folder."""
    if (path / MARKER).is_file():
        refuse_damaged(path)
        return read_checkpoint(path)
    if not (path / "checkpoints").is_dir():
        if path.parent.name == "checkpoints" or (path / TRAINER).exists():
            whole = ", ".join(folder.name for folder in complete_by_step(path.parent).values())
            raise CheckpointError(f"{path} is no complete checkpoint; beside it there are: {whole or 'none'}")
        return None
    newest = newest_checkpoint(path / "checkpoints")
    if newest is None:
        raise CheckpointError(f"{path} has no complete checkpoint")
    refuse_damaged(newest.folder)
    return newest


def _base_of(checkpoint: Checkpoint, home: Path) -> Path:
    from training.export import ExportError, base_model_of

    try:
        base = base_model_of(checkpoint.folder.parent.parent)
    except ExportError:
        return find_model(checkpoint.recipe.model, home)
    return base if (base / "config.json").is_file() else find_model(checkpoint.recipe.model, home)


def _recipe_for(model: Path) -> Recipe:
    """For a model without a run: its context divided as the paper divides it, its chat template where it has one."""
    import torch

    context = context_tokens(model)
    prompt = min(2048, context // 4)
    response = min(14336, context - prompt)
    return Recipe.model_validate(
        {
            "name": "model",
            "title": "Model",
            "model": str(model),
            "rollout": {
                "max_prompt_tokens": prompt,
                "max_thinking_tokens": response - response // 7,
                "max_answer_tokens": response // 7,
                "chat_template": _has_chat_template(model),
            },
            "length": {"mode": "none"},
            "engine": {"type": "auto"},
            "resources": {"generator_gpus": int(torch.cuda.is_available())},
        }
    )


def _has_chat_template(model: Path) -> bool:
    try:
        ChatTemplate(model).render("Hello")
    except ChatTemplateError:
        return False
    return True


def evaluate(
    subject: Subject,
    task: str,
    options: Mapping[str, Any],
    *,
    k: int,
    limit: int | None,
    home: Path | None = None,
) -> dict[str, Any]:
    """What `--json` prints: the metrics of an evaluation (`pass_rate` is pass@1), and what they were measured with.

    `limit`: the first so many prompts. Raises TaskError where the benchmark's data are missing, ValueError where the
    model cannot take a prompt.
    """
    home = home or default_home()
    began = time.monotonic()
    measure = _by_the_harness if task.startswith(PREFIX) else _by_our_verifiers
    figures, prompts = measure(subject, task, options, k, limit, home)
    return {
        "task": task,
        "step": subject.checkpoint.step if subject.checkpoint else None,
        "model": str(subject.base),
        "engine": subject.recipe.engine.type,
        "limit": limit,
        **figures,
        "contamination": _contamination(subject, prompts, home),
        "seconds": round(time.monotonic() - began, 3),
    }


Measured = tuple[dict[str, Any], Sequence[Prompt]]


def _by_our_verifiers(
    subject: Subject, task: str, options: Mapping[str, Any], k: int, limit: int | None, home: Path
) -> Measured:
    benchmark = make_benchmark(task, options, home, patience=DOWNLOAD_TIMEOUT_SECONDS)
    benchmark = replace(benchmark, prompts=benchmark.prompts[:limit])
    with exported(subject, home) as folder:
        groups = asyncio.run(_groups(subject.recipe, folder, benchmark, k))
    found = {
        name.removeprefix("eval/"): (None if math.isnan(value) else value)
        for name, value in evaluation_metrics(groups).items()
    }
    return {"temperature": subject.recipe.eval.temperature, **found}, benchmark.prompts


def _by_the_harness(
    subject: Subject, task: str, options: Mapping[str, Any], k: int, limit: int | None, home: Path
) -> Measured:
    if k != 1:
        raise TaskError(f"{task} says itself how often it samples: --k is for benchmarks of our own")
    with exported(subject, home) as folder:
        return harness.measure(task, options, subject.recipe, folder, home, limit)


@contextmanager
def exported(subject: Subject, home: Path) -> Iterator[Path]:
    """A folder with the model in Hugging Face format; of a checkpoint, for as long as it is needed."""
    if subject.checkpoint is None:
        yield subject.base
        return
    from training.export import export_model

    models = home / "models"
    models.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".evaluate-", dir=models) as place:
        folder = Path(place) / "model"
        export_model(
            Path(subject.checkpoint.trainer_path),
            subject.base,
            folder,
            dtype=subject.recipe.precision.generator,
        )
        yield folder


async def _groups(recipe: Recipe, folder: Path, benchmark: Benchmark, k: int) -> list[Group]:
    codec = Codec(folder, chat_template=recipe.rollout.chat_template)
    for verifier in demanding_verifiers_of(benchmark.task, benchmark.prompts):
        verifier.check()
    engine = make_engine(recipe.model_dump(mode="json"), str(folder), recipe.resources.cpus_per_generator)
    rollouts = Rollouts(recipe, benchmark.task, codec, engine, Verification())
    try:
        with blame_field("precision.head_generator", ValueError):
            await engine.check_head()
        prompts = usable_held_out(benchmark.prompts, rollouts, f"prompts of the benchmark {benchmark.name}")
        return await sampled(rollouts, prompts, k, recipe.eval.temperature, benchmark.name)
    finally:
        await rollouts.aclose()
        engine.shutdown()


def _contamination(subject: Subject, prompts: Sequence[Prompt], home: Path) -> float | None:
    """Against the run's training prompts; None for a model of which they are not known."""
    if subject.checkpoint is None:
        return None
    of = subject.recipe.task
    try:
        task = make_task(of.name, of.options, home, patience=DOWNLOAD_TIMEOUT_SECONDS)
    except TaskError:  # its data are not on this machine
        return None
    return contamination(prompts, task.training_prompts(subject.recipe.seed))


def as_text(result: Mapping[str, Any]) -> str:
    """One line for people."""
    stderr, overlap = result["pass_rate_stderr"], result["contamination"]
    cut = result["truncation_rate"]
    digits = min(4, max(2, -math.floor(math.log10(stderr)))) if (stderr or 0) > 0 else 3
    parts = [
        f"{result['task']}: {result['pass_rate']:.{digits}f}"
        + ("" if stderr is None else f" ± {stderr:.{digits}f}"),
        f"{result['n_prompts']:.0f} prompts"
        + (" (limited)" if result["limit"] else "")
        + f" x {result['k']:.0f}",
        f"{result['seconds']:.1f} s",
    ]
    if cut is not None:
        parts.append(f"{cut:.1%} truncated")
    if overlap is not None:
        parts.append(f"{overlap:.1%} share 13 words in a row, or all of fewer, with a training prompt")
    return "; ".join(parts)
