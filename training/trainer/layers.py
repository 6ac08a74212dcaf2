"""What is done to a network's layers before training: recomputed in the backward pass, compiled, sharded over ranks.

In this order, each around the one before. A layer's `forward` is replaced and not the layer, so that the names of its
parameters stay those of the checkpoint format, and FSDP2's hooks run outside of the compiled code.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint

from training.compiling import check_compiler
from training.trainer.layout import Layout
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


def shard(
    networks: Networks,
    layout: Layout,
    dtype: torch.dtype = torch.float32,
    fill: Callable[[torch.nn.Module], None] | None = None,
) -> None:
    """Divide the networks over the ranks of the layout, and by FSDP2: each layer by itself, its experts where they are
    divided, the embeddings unless the head is tied to them, the rest.

    Layers are gathered and multiplied in `dtype`, the policy's; a critic's own trunk, embeddings and head in float32.
    Gradients are added up in float32 after every micro-batch, and not averaged: the loss of a rank is its share in the
    loss of the batch. `fill` gives a module its weights right before they are split, one after the other: so no rank
    ever holds more than its share and one of them.
    """
    config = networks.policy.config
    policy = networks.policy.get_decoder()
    trunk: Any = networks.critic and networks.critic.trunk
    low = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    units = [(layer, low) for layer in policy.layers]
    units += [(layer, MixedPrecisionPolicy()) for layer in (trunk.layers if trunk is not None else ())]
    if not config.tie_word_embeddings:
        units.append((policy.embed_tokens, MixedPrecisionPolicy()))
    for module, precision in [*units, (networks, MixedPrecisionPolicy())]:
        if fill is not None:
            fill(module)
        for experts in layout.divide(module, config):
            fully_shard(
                experts,
                mesh=layout.expert_shards,
                mp_policy=precision,
                shard_placement_fn=layout.expert_dimension,
            )
        fully_shard(module, mesh=layout.shards, mp_policy=precision)
    for module in networks.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo knows no other


def whole(value: Tensor) -> Tensor:
    """The tensor, gathered from all ranks where it is sharded; a collective."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def release(networks: Networks) -> None:
    """Give up gathered weights after passes without a backward pass, which would do it."""
    if isinstance(networks, FSDPModule):
        networks.reshard()


def _layers(networks: Networks) -> Iterator[Any]:
    for model in networks.transformers():
        yield from (model.get_decoder() if model is networks.policy else model).layers
