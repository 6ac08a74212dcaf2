"""The trainer's part of a checkpoint: a folder in the format of torch.distributed.checkpoint.

Every rank copies its shards and writes the copy while training goes on. Any number of ranks reads them again: a tensor
is found by its name and offset.
"""

import json
import random
import warnings
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException

from training.checkpoints import CheckpointError, CheckpointUnwritable
from training.trainer.distributed import Ranks, saving_group
from training.trainer.network import Networks

# That one rank alone is taken for one process.
warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)


@dataclass(frozen=True)
class State:
    """What is saved. `progress` is what fits into JSON: step, scaler, moments of the advantages."""

    networks: Networks
    optimizer: torch.optim.Optimizer
    progress: Mapping[str, Any]

    def tensors(self) -> dict[str, Tensor]:
        """Weights that are trained, and moments, by name: the very tensors, so that reading into them restores them."""
        frozen = {
            name
            for name, parameter in self.networks.named_parameters(remove_duplicate=False)
            if not parameter.requires_grad
        }
        state = self.networks.state_dict()
        found = {f"networks/{name}": value for name, value in state.items() if name not in frozen}
        for name, parameter in self.networks.named_parameters():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                found[f"optimizer/{name}/{key}"] = value
        return found


def begin_save(path: str, state: State, ranks: Ranks) -> "Future[Any]":
    """Copy the state into the host's memory, and have a thread write it into the folder `path`; see `end_save`."""
    content = {
        **state.tensors(),
        "progress": as_bytes(state.progress),
        f"random/{ranks.index}": as_bytes(random_state()),
    }
    group = saving_group() if ranks.are_many else None
    saving = dcp.async_save(content, checkpoint_id=path, process_group=group, no_dist=not ranks.are_many)
    return cast("Future[Any]", saving)


def end_save(path: str, saving: "Future[Any]") -> None:
    """Wait until it is written. Raises CheckpointError, on every rank, where one of them cannot write."""
    try:
        saving.result()
    except (CheckpointException, OSError, RuntimeError) as error:
        raise CheckpointUnwritable(f"{path} cannot be written: {reason_of(error)}") from error


def load_state(path: str, state: State, ranks: Ranks) -> dict[str, Any]:
    """Restore weights, moments and random states; returns the saved progress.

    A rank that the saving run did not have takes the random states of another. Raises CheckpointError.
    """
    tensors = state.tensors()
    sizes = _saved_sizes(path)
    _check_same(path, sizes, tensors)
    saved_ranks = sum(name.startswith("random/") for name in sizes)
    own = f"random/{ranks.index % max(1, saved_ranks)}"
    content: dict[str, Any] = {**tensors, "progress": _blank(sizes, "progress"), own: _blank(sizes, own)}
    try:
        dcp.load(content, checkpoint_id=path, no_dist=not ranks.are_many)
        progress = from_bytes(content["progress"])
        set_random_state(from_bytes(content[own]))
    except (Exception, CheckpointException) as error:  # a damaged file is reported as one of many types
        raise CheckpointError(f"{path} is damaged: {reason_of(error)}") from error
    return progress


def _saved_sizes(path: str) -> dict[str, tuple[int, ...]]:
    """Shape of each saved tensor."""
    try:
        metadata = dcp.FileSystemReader(path).read_metadata()
        return {name: tuple(getattr(of, "size", ())) for name, of in metadata.state_dict_metadata.items()}
    except Exception as error:  # as above
        raise CheckpointError(f"{path} is damaged: {reason_of(error)}") from error


def _check_same(path: str, saved: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor]) -> None:
    """Raises CheckpointError where the folder has not the very tensors that this trainer has."""
    own = {name: tuple(value.shape) for name, value in tensors.items()}
    theirs = {name: size for name, size in saved.items() if name.startswith(("networks/", "optimizer/"))}
    different = sorted(name for name in own.keys() | theirs.keys() if own.get(name) != theirs.get(name))
    if different:
        name = different[0]
        raise CheckpointError(
            f"{path} is of another model or recipe: {name} is {theirs.get(name, 'not there')}, "
            f"here {own.get(name, 'not wanted')} ({len(different)} of {len(own)} tensors differ)"
        )


def random_state() -> dict[str, Any]:
    """Of Python's and torch's generators, as JSON knows it."""
    found = {"python": random.getstate(), "torch": torch.get_rng_state().tolist()}
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_rng_state().tolist()
    return found


def set_random_state(state: Mapping[str, Any]) -> None:
    """What `random_state` gave."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.tensor(state["cuda"], dtype=torch.uint8))


def as_bytes(value: Any) -> Tensor:
    """JSON as a tensor: a checkpoint of tensors alone runs no code when it is read."""
    return torch.from_numpy(np.frombuffer(json.dumps(value).encode(), np.uint8).copy())


def from_bytes(value: Tensor) -> Any:
    """What `as_bytes` was given."""
    return json.loads(value.numpy().tobytes())


def _blank(sizes: Mapping[str, tuple[int, ...]], name: str) -> Tensor:
    return torch.zeros(sizes.get(name, (0,)), dtype=torch.uint8)


def reason_of(error: BaseException) -> str:
    """One line; of a failure on other ranks, the first of theirs."""
    if isinstance(error, CheckpointException) and error.failures:
        rank, (inner, _) = min(error.failures.items())
        return f"rank {rank}: {reason_of(inner)}"
    return f"{type(error).__name__}: {error}".splitlines()[0]
