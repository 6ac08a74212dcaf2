"""What is done to a network's layers before training: recomputed in the backward pass, compiled, sharded over ranks.

In this order, each around the one before. A layer's `forward` is replaced and not the layer, so that the names of its
parameters stay those of the checkpoint format, and FSDP2's hooks run outside of the compiled code.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint

from training.compiling import check_compiler
from training.trainer.network import Networks


def compile_layers(networks: Networks, device: str, backend: str = "inductor") -> None:
    """torch.compile each layer, once for any batch and length. CompileError without a C++ compiler on a CPU."""
    check_compiler("trainer.compile", device)
    for layer in _layers(networks):
        layer.forward = torch.compile(layer.forward, dynamic=True, backend=backend)


def recompute_layers(networks: Networks) -> None:
    """Keep each layer's input only; the backward pass computes the rest of it again."""
    for layer in _layers(networks):
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)


def shard(networks: Networks, device: str, count: int) -> None:
    """FSDP2 over `count` ranks: each layer by itself, the rest (embeddings, head, critic's head) as one.

    Gradients are added up, not averaged: the loss of a rank is its share in the loss of the batch.
    """
    mesh = init_device_mesh(device, (count,))
    for layer in _layers(networks):
        fully_shard(layer, mesh=mesh)
    fully_shard(networks, mesh=mesh)
    for module in networks.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo knows no other


def sync_gradients(networks: Networks, is_wanted: bool) -> None:
    """Whether the next backward pass adds gradients up over the ranks, or keeps them for a later one."""
    if isinstance(networks, FSDPModule):
        networks.set_requires_gradient_sync(is_wanted)


def whole(value: Tensor) -> Tensor:
    """The tensor, gathered from all ranks where it is sharded; a collective."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def release(networks: Networks) -> None:
    """Give up gathered weights after passes without a backward pass, which would do it."""
    if isinstance(networks, FSDPModule):
        networks.reshard()


def _layers(networks: Networks) -> Iterator[Any]:
    yield from networks.policy.get_decoder().layers
    if networks.critic is not None and networks.critic.trunk is not None:
        yield from networks.critic.trunk.layers
