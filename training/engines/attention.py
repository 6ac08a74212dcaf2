"""Attention of one new token a row over the slot cache, in the form that transformers' layers ask for."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from training.compiling import check_compiler

ATTENTION, COMPILED_ATTENTION = "headroom_slots", "headroom_slots_compiled"
Kernel = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


def use_slots(model: Any, *, is_compiled: bool, device: str) -> None:
    """Have the model's layers attend through one of the kernels below. CompileError without a compiler."""
    if is_compiled:
        check_compiler("engine.compile", device)
        AttentionInterface.register(COMPILED_ATTENTION, _implementation(torch.compile(fused, dynamic=True)))
    AttentionInterface.register(ATTENTION, _implementation(products))
    model.set_attn_implementation(COMPILED_ATTENTION if is_compiled else ATTENTION)


def products(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """[N, KV heads, queries a KV head, size], by two batched products.

    query: [N, KV heads, queries a KV head, size], scaled; key, value: [N, KV heads, W, size]; mask: additive,
    [N, 1, 1, W]. torch's fused kernel takes every head of every row by itself, which on CPU is up to ten times as slow.
    """
    scores = torch.matmul(query, key.transpose(2, 3))
    if mask is not None:
        scores += mask
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(value.dtype)
    return torch.matmul(weights, value)


def fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """The same as sums of products, which a compiler turns into loops over the cache without copies of it."""
    scores = (query.unsqueeze(3).float() * key.unsqueeze(2).float()).sum(-1)
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(dim=-1)
    return (weights.unsqueeze(-1) * value.unsqueeze(2).float()).sum(-2).to(value.dtype)


def _implementation(kernel: Kernel) -> Callable[..., tuple[Tensor, None]]:
    """transformers' attention interface around a kernel; a prefill goes to the library's own."""

    def attend(
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        scaling: float | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        """query: [N, heads, T, size]; key, value: [N, KV heads, W, size]; attention_mask: additive, [N, 1, 1, W]."""
        if query.shape[2] > 1:
            return sdpa_attention_forward(
                module, query, key, value, attention_mask, scaling=scaling, **kwargs
            )
        rows, heads, _, size = query.shape
        kv_heads = key.shape[1]
        grouped = query.view(rows, kv_heads, heads // kv_heads, size) * (scaling or size**-0.5)
        return kernel(grouped, key, value, attention_mask).reshape(rows, 1, heads, size), None

    return attend
