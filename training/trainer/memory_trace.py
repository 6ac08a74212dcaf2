"""How much memory a trainer rank would take: its passes are run without computing anything, with no GPU and no weights.

torch's memory trackers follow each tensor of a forward and backward pass under `FakeTensorMode`; with several ranks the
others are a process group that does nothing. What a GPU adds is not seen: CUDA's own context (about 0.5 GiB), room that
the allocator loses between blocks, and NCCL's buffers.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.distributed._functional_collectives import all_to_all_single
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.device_mesh import DeviceMesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoConfig, AutoModelForCausalLM

from training.memory import tokens_of_a_rank
from training.schema import Recipe
from training.trainer import network, sequences
from training.trainer.distributed import Ranks
from training.trainer.layout import Layout
from training.trainer.network import DTYPES, Critic, Networks, add_adapters


class _OneMode(FakeTensorMode):
    """A copy of a module, as of the critic's own trunk, stays in the mode that its tensors are in."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "_OneMode":
        return self


class _AllPositions(Networks):
    """Every position passes through the head: how many are wanted does not depend on data that are not there."""

    def positions(self, wanted: Tensor) -> Tensor:
        return torch.arange(len(wanted))


def trace_peak(recipe: Recipe, config_file: Path, *, layers_kept: int | None = None) -> int:
    """Bytes that one trainer rank holds at its fullest: weights, gradients, moments, and two micro-batches one after
    the other, each of as many rows of the longest length as `trainer.micro_batch_tokens` admits.

    layers_kept: trace a model of so many layers only. Must run in a process without a process group. Raises ValueError
    for a configuration that the installed transformers does not know.
    """
    config = AutoConfig.from_pretrained(config_file, local_files_only=True)  # nosec B615
    config.num_hidden_layers = layers_kept or config.num_hidden_layers
    ranks = recipe.resources.num_trainers
    if ranks > 1:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        layout = Layout(recipe.resources, Ranks(0, ranks, ""))
        balanced = _balanced_experts() if layout.experts is not None else nullcontext()
        with _OneMode(), _real_meshes(), balanced:
            return _trace(recipe, config, layout)
    finally:
        if ranks > 1:
            dist.destroy_process_group()


@contextmanager
def _replaced(owner: Any, name: str, function: Any) -> Iterator[None]:
    """The class has this function of that name for a while."""
    own = vars(owner)[name]
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, own)


def _real_meshes() -> AbstractContextManager[None]:
    """What FSDP2 makes of two meshes is no tensor of the model's."""
    concatenate = DeviceMesh._concatenate

    def make(meshes: list[DeviceMesh]) -> DeviceMesh:
        with unset_fake_temporarily():
            return concatenate(meshes)

    return _replaced(DeviceMesh, "_concatenate", staticmethod(make))


def _balanced_experts() -> AbstractContextManager[None]:
    """Every rank sends as many tokens to the experts of each: how many it really would does not depend on its own."""
    from transformers.distributed.tensor_parallel import EpDispatchExpertsParallel  # as in layout

    return _replaced(EpDispatchExpertsParallel, "_dispatch_tokens", _dispatch_evenly)


def _dispatch_evenly(
    style: Any, hidden: Tensor, chosen: Tensor, num_experts: int, group: Any, count: int
) -> tuple[Tensor, Tensor, Tensor, list[int], list[int]]:
    total = chosen.numel()
    order = torch.argsort(chosen.reshape(-1))
    sizes = [total // count + (rank < total % count) for rank in range(count)]
    tokens = all_to_all_single(hidden[order // chosen.shape[-1]], sizes, sizes, group)
    return tokens, torch.arange(total) % num_experts, order, sizes, sizes


def _trace(recipe: Recipe, config: Any, layout: Layout) -> int:
    networks = _sharded(recipe, config, layout, with_critic=recipe.uses_critic)
    # Adam's two moments: while activations are there, those on the host are not on the GPU
    others = 0 if recipe.optimizer.offload_moments else _local_bytes(networks, trained_only=True) * 2
    if recipe.loss.kl_coef:
        others += _local_bytes(_sharded(recipe, config, layout, with_critic=False))
    is_alone = layout.shards is None
    tracker = MemTracker() if is_alone else FSDPMemTracker(networks)
    if is_alone:
        tracker.track_external(networks)
    length = recipe.rollout.max_sequence_tokens
    total = tokens_of_a_rank(recipe, length) * recipe.resources.trainer_context_parallel
    rows = max(1, total // length)
    is_packed = _can_be_packed(networks.policy)
    with tracker:
        for _ in range(2):
            tokens = torch.zeros(rows, total // rows, dtype=torch.long)
            wanted = torch.ones_like(tokens[:, 1:], dtype=torch.bool)
            logp, _, values = networks(tokens, wanted, [tokens.shape[1]] * rows if is_packed else None)
            (logp.sum() if values is None else logp.sum() + values.sum()).backward()
            tracker.reset_mod_stats()
    peak = tracker.get_tracker_snapshot("peak")
    return others + sum(of_device["Total"] for of_device in peak.values())


def _sharded(recipe: Recipe, config: Any, layout: Layout, *, with_critic: bool) -> Networks:
    policy: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    add_adapters(policy, recipe.trainer, "cpu")
    critic = Critic(policy, recipe.critic.trunk) if with_critic else None
    networks = _AllPositions(policy, critic, recipe, layout)
    if _can_be_packed(policy):
        sequences.install(networks.transformers())
    if recipe.trainer.activation_checkpointing:
        network.recompute_layers(networks, recipe.trainer.kept_layers)
    if layout.shards is not None:
        network.shard(networks, layout, DTYPES[recipe.precision.trainer])
    return networks


def _can_be_packed(policy: Any) -> bool:
    """Then padded rows are traced so, too: of rows that it cannot look into transformers makes a mask of all positions
    squared, which a real pass does not have."""
    return sequences.is_packed(None, policy, "cuda")


def _local_bytes(networks: Networks, *, trained_only: bool = False) -> int:
    """Of the weights, this rank's share, float32."""
    wanted = [each for each in networks.parameters() if each.requires_grad or not trained_only]
    owned = (getattr(parameter, "to_local", lambda own=parameter: own)() for parameter in wanted)
    return sum(local.nbytes for local in owned)
