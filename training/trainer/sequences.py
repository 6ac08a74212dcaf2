"""Token sequences on their way through a network's layers: each in a padded row, or all behind one another.

Behind one another there is no padding: the layers see one row of all tokens, and attention keeps the sequences apart
by their `Spans`. With context parallelism a rank has its part of that row only, and gets the whole of it, for its share
of the heads, where attention needs that (arXiv 2309.14509): so any attention serves, and all ranks have the same work.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed._functional_collectives import all_to_all_single
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

# Mean length, tokens, from which on attention of each sequence by itself is faster than the kernel for many: on an H200
# whole passes take 12 % more time so at 500 tokens, and 18 % less at 6,400.
LONG_TOKENS = 1024
WITHOUT_STATE = {
    "full_attention",
    "sliding_attention",
}  # layers that see other tokens through attention alone
Attention = Callable[..., tuple[Tensor, Any]]


@dataclass(frozen=True)
class Spans:
    """Sequences that lie behind one another in one row. `ends`: [n + 1] int32 from 0, on the device of the tokens.
    `group`: ranks that have a part of the row each, and all heads of it."""

    lengths: tuple[int, ...]
    ends: Tensor
    group: dist.ProcessGroup | None = None


@dataclass(frozen=True)
class Sequences:
    """tokens: [n, T], what the layers get. places: [m], where the first m of them lie in the flattened [N, L] that they
    were given as; the others are there for nothing. arguments: of the decoder."""

    tokens: Tensor
    places: Tensor
    arguments: dict[str, Any] = field(default_factory=dict)


def arrange(
    tokens: Tensor,
    lengths: Sequence[int] | None,
    group: dist.ProcessGroup | None = None,
) -> Sequences:
    """tokens: [N, L], padded on the right. lengths: of its N sequences, to lay them behind one another; None: they stay
    in their rows. group: to have this rank's part of them alone."""
    if lengths is None:
        return Sequences(tokens, torch.arange(tokens.numel(), device=tokens.device))
    total, width = sum(lengths), tokens.shape[1]
    sizes = torch.tensor(lengths, device=tokens.device)
    inside = torch.arange(width, device=tokens.device) < sizes.unsqueeze(1)
    places = torch.nonzero_static(inside.flatten(), size=total).squeeze(-1)
    flat, positions = tokens.flatten().index_select(0, places), places % width
    if group is None:
        spans, mine = _spans(tuple(lengths), tokens.device), slice(0, total)
    else:
        flat, positions, spans, mine = _own_part(flat, positions, tuple(lengths), group)
    no_mask = torch.empty(1, 1, 0, 0, dtype=torch.bool, device=tokens.device)  # the library then makes none
    arguments = {"position_ids": positions.unsqueeze(0), "attention_mask": no_mask, "spans": spans}
    return Sequences(flat.unsqueeze(0), places[mine], arguments)


def _own_part(
    flat: Tensor, positions: Tensor, lengths: tuple[int, ...], group: dist.ProcessGroup
) -> tuple[Tensor, Tensor, Spans, slice]:
    """Of tokens and positions, lengthened by a sequence of nothing until all ranks have as many; and which are its own
    of the tokens that were given."""
    count, total = dist.get_world_size(group), len(flat)
    part = -(-total // count)
    if missing := part * count - total:
        nothing = torch.zeros(missing, dtype=flat.dtype, device=flat.device)
        flat, positions, lengths = (
            torch.cat([flat, nothing]),
            torch.cat([positions, nothing]),
            (*lengths, missing),
        )
    mine = slice(start := dist.get_rank(group) * part, start + part)
    return (
        flat[mine],
        positions[mine],
        _spans(lengths, flat.device, group),
        slice(start, min(start + part, total)),
    )


def _spans(lengths: tuple[int, ...], device: Any, group: dist.ProcessGroup | None = None) -> Spans:
    lengths = tuple(length for length in lengths if length)
    ends = torch.tensor((0, *lengths), dtype=torch.int32, device=device).cumsum(0, dtype=torch.int32)
    return Spans(lengths, ends, group)


def is_packed(asked: bool | None, model: PreTrainedModel, device: str) -> bool:
    """Whether sequences go behind one another: as asked, else on a GPU where the model's layers see other tokens
    through attention alone. Raises ValueError where it is asked of another."""
    layers = getattr(model.config.get_text_config(), "layer_types", None) or WITHOUT_STATE
    can_be = bool(model._supports_attention_backend) and set(layers) <= WITHOUT_STATE
    if asked and not can_be:
        raise ValueError(
            f"trainer.packed: sequences behind one another would see each other in {type(model).__name__}"
        )
    return can_be and (device != "cpu" if asked is None else asked)


def install(
    models: Iterable[PreTrainedModel], name: str = "headroom", attention: Attention = sdpa_attention_forward
) -> None:
    """Have the models attend by `attention`, known to transformers by that name; each of the `Spans` by itself where
    they are given some."""

    def attend(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
    ) -> tuple[Tensor, Any]:
        spans: Spans | None = kwargs.pop("spans", None)
        if spans is None:
            return attention(module, query, key, value, attention_mask, **kwargs)
        return packed_attention(attention, module, query, key, value, spans, **kwargs), None

    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, sdpa_mask)
    for model in models:
        model.set_attn_implementation(name)


@torch.compiler.disable  # the lengths are others in every batch
def packed_attention(
    attention: Attention, module: Any, query: Tensor, key: Tensor, value: Tensor, spans: Spans, **kwargs: Any
) -> Tensor:
    """[1, T, heads, D] of query [1, heads, T, D] and key, value [1, key heads, T, D]."""
    if spans.group is not None:
        query, key, value = (_regroup(x, spans.group) for x in (query, key, value))
    if (
        value.is_cuda and value.dtype != torch.float32 and torch.cuda.get_device_capability() >= (8, 0)
    ) and sum(spans.lengths) < LONG_TOKENS * len(spans.lengths):
        mixed = _by_kernel(query, key, value, spans, **kwargs)
    else:
        mixed = _one_by_one(attention, module, query, key, value, spans, **kwargs)
    return mixed if spans.group is None else _regroup(mixed, spans.group)


def _by_kernel(
    query: Tensor, key: Tensor, value: Tensor, spans: Spans, scaling: float | None = None, **kwargs: Any
) -> Tensor:
    window, longest = kwargs.get("sliding_window"), max(spans.lengths)
    key, value = (repeat_kv(x, query.shape[1] // x.shape[1]) for x in (key, value))
    # Autocast does not know the kernel.
    query, key, value = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))
    past = -1 if window is None else window - 1
    found = varlen_attn(
        query, key, value, spans.ends, spans.ends, longest, longest, scale=scaling, window_size=(past, 0)
    )
    return cast(Tensor, found).unsqueeze(0)


def _one_by_one(
    attention: Attention, module: Any, query: Tensor, key: Tensor, value: Tensor, spans: Spans, **kwargs: Any
) -> Tensor:
    window = kwargs.get("sliding_window")
    parts = zip(*(x.split(spans.lengths, dim=2) for x in (query, key, value)), strict=True)
    found = []
    for q, k, v in parts:
        mask = None if window is None or q.shape[2] <= window else _window(q.shape[2], window, q.device)
        found.append(attention(module, q, k, v, mask, **kwargs)[0])
    return torch.cat(found, dim=1)


def _window(length: int, window: int, device: Any) -> Tensor:
    """[1, 1, length, length] bool: the last `window` tokens of each."""
    seen = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    return seen.triu(1 - window).view(1, 1, length, length)


def _regroup(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """[1, A / ranks, B, D] of [1, A, B / ranks, D]: all tokens of some heads, or all heads of some tokens."""
    count = dist.get_world_size(group)
    mine, part, width = x.shape[1] // count, x.shape[2], x.shape[3]
    found = _exchange(x.reshape(count, mine, part, width), group)
    return found.transpose(0, 1).reshape(1, mine, count * part, width)


def _exchange(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The first dimension is of ranks: to whom, and afterwards from whom."""
    even = [1] * len(x)
    found: Tensor = all_to_all_single(x.contiguous(), even, even, group)
    return found
