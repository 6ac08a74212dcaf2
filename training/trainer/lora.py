"""Low-rank adapters (LoRA, arXiv 2106.09685): a linear layer multiplies by W + alpha / rank B A; W stays as it is.

The sum is made before the product, in float32, and not beside it: so trainer and engines, which get the sum, multiply
with the same numbers. For sequences much longer than the rank it costs next to nothing.
"""

import math
import zlib
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from training.schema import Trainer

DOWN, UP, SCALE = "lora_a", "lora_b", "lora_scale"  # A: [rank, in], B: [out, rank], alpha / rank: []


class LoraLinear(torch.nn.Linear):
    """A linear layer with its own weight, frozen, and an adapter of zero effect."""

    def __init__(self, plain: torch.nn.Linear, rank: int, alpha: float, device: str) -> None:
        """device: of the scale; the adapter lies where the weight does."""
        super().__init__(plain.in_features, plain.out_features, bias=False, device="meta")
        self.weight, self.bias = plain.weight, plain.bias
        there = plain.weight.device
        self.lora_a = torch.nn.Parameter(torch.zeros(rank, self.in_features, device=there))
        self.lora_b = torch.nn.Parameter(torch.zeros(self.out_features, rank, device=there))
        self.lora_scale: Tensor
        self.register_buffer(SCALE, torch.tensor(alpha / rank, device=device))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - as in torch
        """input: [..., in]."""
        with torch.autocast(input.device.type, enabled=False):
            weight = added(self.weight, self.lora_a, self.lora_b, self.lora_scale)
        return functional.linear(input, weight, self.bias)


def added(weight: Tensor, down: Tensor, up: Tensor, scale: Tensor) -> Tensor:
    """W + scale B A, float32, [out, in]."""
    return weight.float() + scale * (up.float() @ down.float())


def add_adapters(model: PreTrainedModel, settings: Trainer, device: str) -> None:
    """Freeze the model, and give every linear layer of its decoder an adapter; does nothing without a rank.

    On the meta device they have no values yet: `start_of` says them.
    """
    if settings.lora_rank is None:
        return
    model.requires_grad_(False)
    decoder = model.get_decoder()
    plain = [(name, each) for name, each in decoder.named_modules() if type(each) is torch.nn.Linear]
    for name, layer in plain:
        adapted = LoraLinear(layer, settings.lora_rank, settings.lora_alpha, device)
        start = start_of(f"{model.base_model_prefix}.{name}.{DOWN}", adapted.lora_a)
        if start is not None and not adapted.lora_a.is_meta:
            with torch.no_grad():
                adapted.lora_a.copy_(start)
        decoder.set_submodule(name, adapted)


def start_of(name: str, parameter: Tensor) -> Tensor | None:
    """What an adapter's A begins with, the same on every rank: uniform in +-1 / sqrt(in). None of other parameters."""
    if not name.endswith(f".{DOWN}"):
        return None
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return (2 * torch.rand(parameter.shape, generator=generator) - 1) / math.sqrt(parameter.shape[1])


def is_adapter(name: str) -> bool:
    """Whether it is a part of an adapter, and no weight of the model."""
    return name.rpartition(".")[2] in (DOWN, UP, SCALE)


def adapter_of(name: str, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor] | None:
    """(A, B, scale) of the weight of that name; None where it has none."""
    layer = name.removesuffix(".weight")
    if f"{layer}.{DOWN}" not in state:
        return None
    return state[f"{layer}.{DOWN}"], state[f"{layer}.{UP}"], state[f"{layer}.{SCALE}"]
