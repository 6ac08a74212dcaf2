"""The head's weight as the generator holds it: what both sides multiply with after every update."""

from typing import Any

import torch
from torch import Tensor


def as_held(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The weight rounded to the generator's dtype, in its own; gradients go to the weight as if it were not.

    The generator gets its weights in its own precision, and with an FP32 head multiplies those in float32. The
    weights of the trainer are float32: without this its head would be another one from the first update on.
    """
    return weight if dtype == weight.dtype else _Rounded.apply(weight, dtype)


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, dtype: torch.dtype) -> Tensor:
        return weight.to(dtype).to(weight.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None
