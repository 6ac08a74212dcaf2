"""Pieces of a decoder layer that a CPU computes faster than the library's own; the numbers are the same up to rounding.

Trainer and transformers engine install them. A GPU keeps the library's, which have kernels there.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from training.trainer import sequences
from training.trainer.network import LoraLinear, Networks

# Longest sequences, in tokens, where whole matrices of scores are faster than the library's blocks of them (measured
# forward and backward, 4 heads of 32, one core; in bfloat16 the library's kernel is slow).
LONGEST_FLOAT32, LONGEST_BFLOAT16 = 128, 1024


def install(networks: Networks, *, is_compiled: bool) -> None:
    """Use them in policy and critic. Compiled layers have fused norms already."""
    attention: sequences.Attention = causal_attention
    if is_slow(networks.dtype, "cpu"):
        multiply_in_float32(networks.policy.get_decoder(), networks.dtype)
        attention = in_float32(attention)
    sequences.install(networks.transformers(), "headroom_cpu", attention)
    for module in networks.modules() if not is_compiled else ():
        if hasattr(module, "variance_epsilon") and _is_rms_norm(module):
            _replace_forward(module)


def is_slow(dtype: torch.dtype, device: str) -> bool:
    """Whether this is a CPU without instructions for products of that dtype, where they take up to 15 times as long as
    those of float32."""
    kernels = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}
    return device == "cpu" and dtype in kernels and not getattr(torch.ops.mkldnn, kernels[dtype])()


def multiply_in_float32(model: torch.nn.Module, dtype: torch.dtype) -> None:
    """Have linear layers multiply numbers of that dtype in float32 and round the results to it, as the instructions
    do."""
    for module in model.modules():
        if type(module) is torch.nn.Linear or isinstance(module, LoraLinear):
            module.forward = partial(_rounded_linear, module, dtype)  # type: ignore[method-assign]


def _rounded_linear(layer: torch.nn.Linear, dtype: torch.dtype, input: Tensor) -> Tensor:  # noqa: A002 - as in torch
    with torch.autocast(input.device.type, enabled=False):
        weight = layer.adapted() if isinstance(layer, LoraLinear) else layer.weight
        bias = None if layer.bias is None else layer.bias.to(dtype).float()
        rounded = functional.linear(input.to(dtype).float(), weight.to(dtype).float(), bias)
        return rounded.to(dtype)


def in_float32(attention: sequences.Attention) -> sequences.Attention:
    """Where the policy's layers run in a lower dtype, the attention of the same numbers in float32, rounded to it."""

    def attend(
        module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, Any]:
        if not torch.is_autocast_enabled("cpu"):
            return attention(module, query, key, value, mask, **kwargs)
        dtype = torch.get_autocast_dtype("cpu")
        with torch.autocast("cpu", enabled=False):
            query, key, value = (x.to(dtype).float() for x in (query, key, value))
            mixed, weights = attention(module, query, key, value, mask, **kwargs)
        return mixed.to(dtype), weights

    return attend


def causal_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """([N, T, heads, D], None) of query [N, heads, T, D] and key, value [N, key heads, T, D], as the library asks for.

    Long sequences, those with a mask of their own and values of another width go to the library's kernel.
    """
    rows, heads, length, width = query.shape
    low = torch.is_autocast_enabled("cpu") or query.dtype != torch.float32
    is_short = length <= (LONGEST_BFLOAT16 if low else LONGEST_FLOAT32)
    is_square = length == key.shape[2] and width == value.shape[3]
    if attention_mask is not None or dropout or not is_short or not is_square:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    groups = heads // key.shape[1]
    flat = (rows * heads, length, width)
    query, key, value = (x.reshape(flat) for x in (query, repeat_kv(key, groups), repeat_kv(value, groups)))
    future = query.new_full((length, length), float("-inf")).triu(1)
    scale = width**-0.5 if scaling is None else scaling
    scores = torch.baddbmm(future.expand(rows * heads, -1, -1), query, key.transpose(1, 2), alpha=scale)
    mixed = torch.bmm(scores.softmax(dim=-1), value)
    return mixed.view(rows, heads, length, width).transpose(1, 2), None


class RmsNorm(torch.autograd.Function):
    """y = w x / sqrt(mean(x^2) + eps), with a backward pass of a few sweeps over memory instead of ten."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """x: [..., H], float32; weight: [H]."""
        mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1])
        inverse = mean_square.add_(eps).rsqrt_()
        normed = x * inverse
        ctx.save_for_backward(normed, weight, inverse)
        return normed * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """With n = x / rms: dL/dw = sum g n; dL/dx = (g w - n mean(g w n)) / rms."""
        (gradient,) = gradients
        normed, weight, inverse = ctx.saved_tensors
        of_normed = gradient * normed
        share = (of_normed @ weight).div_(len(weight)).unsqueeze(-1)
        of_x = (gradient * weight).addcmul_(normed, share, value=-1).mul_(inverse)
        return of_x, of_normed.flatten(0, -2).sum(dim=0), None


def _replace_forward(module: Any) -> None:
    plain, eps = module.forward, module.variance_epsilon

    def forward(x: Tensor) -> Tensor:
        return RmsNorm.apply(x, module.weight, eps) if x.dtype == torch.float32 else plain(x)

    module.forward = forward


@torch.no_grad()
def _is_rms_norm(module: Any) -> bool:
    """Whether the module computes this formula, also one without weights yet; some models scale by 1 + w."""
    x = torch.linspace(-1, 3, 2 * len(module.weight)).view(2, -1)
    weight = torch.linspace(0.5, 1.5, len(module.weight))
    said = torch.func.functional_call(module, {"weight": weight}, (x,))
    return torch.allclose(RmsNorm.apply(x, weight, module.variance_epsilon), said, atol=1e-5)
