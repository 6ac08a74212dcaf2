"""How trainer ranks divide a batch and a model, all of it in one mesh of devices.

Ranks that lie next to each other share the most. `tensor` of them have the same tokens, and each a part of every linear
layer of the decoder's layers, and of the positions that pass through the head. `context` such groups have the same rows
and each a part of their tokens (`sequences`). What is left has rows of its own. FSDP2 splits what then is alike on all
ranks of a replica once more, and adds up gradients over the replicas (HSDP). The experts of a layer are divided over
`expert` neighbours, which send each other their tokens.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from transformers import PretrainedConfig

from training.schema import Resources
from training.trainer import sequences
from training.trainer.distributed import ALONE, Ranks
from training.trainer.sequences import Sequences

# That weights divided twice are gathered in two steps.
logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
OF_A_LAYER = "layers.*."  # what transformers' names of a decoder's parts begin with, in its plans
OF_OWN_HEADS = "replicated_with_grad_allreduce"
STYLES: Mapping[str, type[ParallelStyle]] = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}


class Layout:
    """One rank's place. Of ranks with the same rows one `speaks` for all. Meshes of ranks, None where there is but one:
    `shards` (FSDP2), `tensor`, `context`, `rows` (of the same rows), `experts` and `expert_shards`."""

    def __init__(self, resources: Resources, ranks: Ranks = ALONE, device: str = "cpu") -> None:
        """A collective, where there are others."""
        tensor, context = resources.trainer_tensor_parallel, resources.trainer_context_parallel
        experts, same_rows = resources.trainer_expert_parallel, tensor * context
        self.index, self.count = ranks.index // same_rows, ranks.count // same_rows
        self.speaks = ranks.index % same_rows == 0
        self.shards = self.tensor = self.context = self.rows = cast(DeviceMesh | None, None)
        self.experts = self.expert_shards = self.shards
        if not ranks.are_many:
            return
        world = init_device_mesh(device, (ranks.count,), mesh_dim_names=("ranks",))
        self.shards, columns = _meshes(world, resources.trainer_replicas, tensor, "tensor")
        self.tensor = columns if tensor > 1 else None
        if context > 1:
            parts = world._unflatten(0, (self.count, context, tensor), ("data", "context", "columns"))
            self.context = parts["context"]
        if same_rows > 1:
            self.rows = world._unflatten(0, (self.count, same_rows), ("batch", "rows"))["rows"]
        if experts > 1:
            self.expert_shards, self.experts = _meshes(world, resources.trainer_replicas, experts, "expert")

    # -- tokens ----------------------------------------------------------------------------------------------

    def arrange(self, tokens: Tensor, lengths: Sequence[int] | None) -> Sequences:
        """This rank's part of them; see `sequences.arrange`."""
        group = self.context.get_group() if self.context is not None else None
        return sequences.arrange(tokens, lengths, group)

    def own(self, positions: Tensor) -> Tensor:
        """Those of the positions that this rank passes through the head."""
        return (
            positions
            if self.tensor is None
            else positions[self.tensor.get_local_rank() :: self.tensor.size()]
        )

    def shared(self, hidden: Tensor) -> Tensor:
        """The same, of which each rank uses `own` positions: gradients are added up."""
        return hidden if self.tensor is None else _local(_replicated(hidden, self.tensor), Partial())

    def together(self, values: Tensor) -> Tensor:
        """Added up over the ranks with the same rows, of which each knows others and has 0 elsewhere; a gradient goes
        to where its value came from."""
        return _sum(values, self.rows)

    def of_parts(self, values: Tensor) -> Tensor:
        """As `together`, of values that each rank knows for all of its part of the tokens."""
        return _sum(values, self.context)

    def head(self, weight: Tensor) -> Tensor:
        """The head's weight to multiply `own` positions with."""
        return _local(weight, Partial())

    # -- weights ---------------------------------------------------------------------------------------------

    def expert_dimension(self, parameter: torch.nn.Parameter) -> Shard:
        """Along which FSDP2 splits the parameters of experts: [experts, ...], of which a rank may have too few."""
        ranks = (
            self.experts.size() * self.expert_shards.size(-1) if self.experts and self.expert_shards else 1
        )
        return Shard(0 if len(parameter) % ranks == 0 else 1)

    def divide(self, module: torch.nn.Module, config: PretrainedConfig) -> list[torch.nn.Module]:
        """Leave this rank its part of a layer, or of any module that is no layer, before FSDP2 does. Returns the
        experts in it, if they are divided: FSDP2 splits them over `expert_shards`.

        Raises ValueError for a family of which transformers does not say how, or otherwise than by columns and rows.
        """
        experts: list[torch.nn.Module] = []
        if self.experts is not None:
            experts = _divide_experts(module, self.experts, self.tensor, _plan(config, "base_model_ep_plan"))
        if self.tensor is not None:
            plan = _plan(config, "base_model_tp_plan")
            apart = {part for each in experts for part in each.modules()}
            parts = {
                name: (part, plan[name])
                for name, part in module.named_modules()
                if name in plan and part not in apart
            }
            sums = _divide_linear(module, self.tensor, parts)
            _replicate_others(module, self.tensor, sums)
        return experts


def _meshes(world: DeviceMesh, replicas: int, size: int, name: str) -> tuple[DeviceMesh, DeviceMesh]:
    """FSDP2's, which takes two dimensions as replicas and shards, and that of `size` neighbours."""
    shards = world.size() // replicas // size
    sizes, names = (replicas, shards, size), (f"{name}_replica", f"{name}_shard", name)
    first = int(replicas == 1)
    mesh = world._unflatten(0, sizes[first:], names[first:])
    return mesh[names[first:-1]], mesh[name]


def _plan(config: PretrainedConfig, name: str) -> dict[str, str]:
    """Of a layer's parts: what transformers does with them."""
    plan = getattr(config.get_text_config(), name, None) or {}
    found = {part.removeprefix(OF_A_LAYER): how for part, how in plan.items() if part.startswith(OF_A_LAYER)}
    if not found:
        raise ValueError(
            f"transformers does not say how ranks divide the layers of a {config.model_type} model ({name})"
        )
    return found


def _divide_experts(
    module: torch.nn.Module, experts: DeviceMesh, tensor: DeviceMesh | None, plan: dict[str, str]
) -> list[torch.nn.Module]:
    from transformers.distributed.tensor_parallel import apply_expert_parallelism  # older versions have none

    apply_expert_parallelism(module, experts, tensor, plan)  # type: ignore[arg-type]  # it takes None, too
    return [part for name, part in module.named_modules() if plan.get(name) == "ep_dispatch_experts"]


def _divide_linear(
    module: torch.nn.Module, mesh: DeviceMesh, parts: dict[str, tuple[torch.nn.Module, str]]
) -> set[torch.nn.Module]:
    """Linear layers by columns and rows. Returns the modules whose gradients are to be added up over the ranks, because
    each sees its own heads."""
    if others := {how for _, how in parts.values()} - {*STYLES, OF_OWN_HEADS}:
        raise ValueError(
            f"resources.trainer_tensor_parallel does not divide as transformers' {', '.join(sorted(others))}"
        )
    for owner in {name.rpartition(".")[0] for name, (_, how) in parts.items() if how == "colwise"}:
        module.get_submodule(owner).register_forward_pre_hook(partial(_enter, mesh), with_kwargs=True)
    styles = {name: STYLES[how]() for name, (_, how) in parts.items() if how in STYLES}
    parallelize_module(module, mesh, styles, src_data_rank=None)
    return {part for part, how in parts.values() if how == OF_OWN_HEADS}


def _enter(mesh: DeviceMesh, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One tensor for all of a module's columns: so their gradients are added up over the ranks once."""
    if args:
        return (_replicated(args[0], mesh), *args[1:]), kwargs
    return args, kwargs | {"hidden_states": _replicated(kwargs["hidden_states"], mesh)}


def _replicate_others(module: torch.nn.Module, mesh: DeviceMesh, sums: set[torch.nn.Module]) -> None:
    """What is not divided is on every rank, and computed there; a tied weight stays one."""
    made: dict[int, torch.nn.Parameter] = {}
    for owner in module.modules():
        plain = {
            key: value
            for key, value in owner._parameters.items()
            if value is not None and not isinstance(value, DTensor)
        }
        for value in plain.values():
            if id(value) not in made:
                copied = distribute_tensor(value.detach(), mesh, [Replicate()], src_data_rank=None)
                made[id(value)] = torch.nn.Parameter(copied, value.requires_grad)
        if plain:
            gradient = Partial() if owner in sums else Replicate()
            owner._parameters.update({key: made[id(value)] for key, value in plain.items()})
            owner.forward = partial(_forward_locally, owner, owner.forward, gradient)


def _forward_locally(
    module: Any, forward: Callable[..., Any], gradient: Placement, *args: Any, **kwargs: Any
) -> Any:
    kept = dict(module._parameters)
    module._parameters.update(
        {key: _local(value, gradient) for key, value in kept.items() if value is not None}
    )
    try:
        return forward(*args, **kwargs)
    finally:
        module._parameters.update(kept)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, mesh: DeviceMesh) -> Tensor:
        total = values.clone()
        dist.all_reduce(total, group=mesh.get_group())
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def _sum(values: Tensor, mesh: DeviceMesh | None) -> Tensor:
    return values if mesh is None else _Sum.apply(values, mesh)


def _replicated(value: Tensor, mesh: DeviceMesh) -> DTensor:
    return DTensor.from_local(value, mesh, [Replicate()], run_check=False)


def _local(value: Tensor, gradient: Placement) -> Tensor:
    return value.to_local(grad_placements=[gradient]) if isinstance(value, DTensor) else value
