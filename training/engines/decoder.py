"""Continuous batching with a transformers model: rows of any length advance together, one token a step.

Attention of one new token a row goes over the slot cache, in the form that transformers' layers ask for.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from training.engines.rows import Job, Rows, choose
from training.engines.slot_cache import SlotCache, kv_room, refuse_too_small
from training.models import eos_token_ids
from training.schema import Recipe
from training.trainer.cpu_kernels import is_slow, multiply_in_float32
from training.trainer.network import DTYPES, check_compiler, head_logits, load_network

PREFILL_TOKENS = 16_384  # in one forward pass, with padding
_JOINING_SHARE = (
    16  # while requests queue, they join when one slot in so many is free: a pass is dear for a few
)


class Decoder:
    """The model, its cache and the rows. Synchronous: nothing changes between two calls."""

    def __init__(self, recipe: Recipe, folder: Path, device: str) -> None:
        self._device = device
        dtype = DTYPES[recipe.precision.generator]
        network: Any = load_network(folder, device)
        self.model = network.to(dtype).eval().requires_grad_(False)
        self._head_dtype = DTYPES[recipe.precision.head_generator]
        self._eos = np.array(eos_token_ids(folder))
        config, columns = self.model.config, recipe.rollout.max_sequence_tokens
        _check_attention(config, columns)
        use_slots(self.model, is_compiled=recipe.engine.compile, device=device)
        held = dtype
        if is_slow(dtype, device):
            multiply_in_float32(self.model, dtype)
            held = torch.float32
        room = kv_room(recipe, device)
        slots = min(recipe.engine.max_sequences, room.bytes // SlotCache.row_bytes(config, columns, held))
        refuse_too_small(room, recipe, SlotCache.row_bytes(config, 1, held))
        self._cache = SlotCache(config, slots, columns, held, device)
        self._rows = Rows(slots, columns, recipe.seed)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def max_sequence_tokens(self) -> int:
        """Prompt and response together."""
        return self._rows.columns

    @property
    def kv_tokens(self) -> int:
        """Tokens that the cache holds."""
        return self._rows.slots * self._rows.columns

    def num_joining(self, num_waiting: int) -> int:
        """How many waiting requests should join before the next step."""
        free = self._rows.slots - len(self._rows)
        if num_waiting > free and free * _JOINING_SHARE < self._rows.slots:
            return 0
        return min(num_waiting, free)

    def join(self, jobs: list[Job]) -> None:
        """Give each job a row. Equal prompts are computed once."""
        self._compute_cache(self._rows.add(jobs))

    def rebuild(self) -> None:
        """Compute all rows' cache anew, with the weights of now."""
        self._compute_cache(slice(0, len(self._rows)))

    def step(self, version: int) -> None:
        """One more token for each row; rows that are done, or that nobody waits for, leave."""
        tokens, logp = self._next_tokens()
        if not np.isfinite(logp).all():
            raise FloatingPointError(f"logits of the model of version {version} are not finite")
        is_full = self._rows.append(tokens, logp, version)
        is_finished = np.isin(tokens, self._eos)
        is_over = np.array([job.call.is_over for job in self._rows.jobs])
        done = np.flatnonzero(is_full | is_finished | is_over)
        if len(done):
            for row in done.tolist():
                self._rows.jobs[row].answer(self._rows.completion(row, finished=bool(is_finished[row])))
            width = int(self._rows.lengths[: len(self._rows)].max())
            sources, targets = self._rows.remove(done)
            if sources:
                self._cache.move(sources, targets, width)

    def interrupt(self) -> None:
        """All rows leave with what they have."""
        rows = np.arange(len(self._rows))
        for row, job in enumerate(self._rows.jobs):
            job.answer(self._rows.completion(row, finished=False, interrupted=True))
        self._rows.remove(rows)

    def fail(self, error: BaseException) -> None:
        """All rows leave with an error."""
        for job in self._rows.jobs:
            job.call.fail(error)
        self._rows.remove(np.arange(len(self._rows)))

    # -- forward passes --------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _compute_cache(self, rows: slice) -> None:
        """Keys and values of all tokens of the rows but each one's newest, which the next step takes in."""
        first = rows.start
        while first < rows.stop:
            width = int(self._rows.lengths[first : rows.stop].max()) - 1
            last = min(rows.stop, first + max(1, PREFILL_TOKENS // max(1, width)))
            if width:
                self._prefill(slice(first, last), width)
            first = last

    def _prefill(self, rows: slice, width: int) -> None:
        known = self._rows.tokens[rows, :width].copy()
        known[np.arange(width) >= self._rows.lengths[rows, None] - 1] = 0
        distinct, source = np.unique(known, axis=0, return_inverse=True)
        self._cache.prefill(rows, width, self._tensor(source.reshape(-1)))
        self._decode(self._tensor(distinct), torch.arange(width, device=self._device).unsqueeze(0), None)

    @torch.inference_mode()
    def _next_tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """(sampled token of each row, its log-probability)."""
        n = len(self._rows)
        lengths = self._rows.lengths[:n]
        width, columns = int(lengths.max()), self._tensor(lengths - 1)
        self._cache.step(columns, width)
        newest = self._tensor(self._rows.tokens[np.arange(n), lengths - 1]).unsqueeze(1)
        hidden = self._decode(newest, columns.unsqueeze(1), self._mask(columns, width, lengths.min()))
        logits = head_logits(self.model, hidden[:, -1], self._head_dtype)
        logits /= self._tensor(self._rows.temperatures[:n]).unsqueeze(1)
        tokens, logp = choose(logits, self._tensor(self._rows.uniforms()))
        return tokens.cpu().numpy(), logp.cpu().numpy()

    def _mask(self, columns: Tensor, width: int, shortest: int) -> Tensor | None:
        """Additive, [n, 1, 1, width]: a row attends to its own columns. None where all rows are as long."""
        if shortest == width:
            return None
        mask = torch.zeros(len(columns), width, dtype=self.model.dtype, device=self._device)
        mask.masked_fill_(torch.arange(width, device=self._device) > columns.unsqueeze(1), float("-inf"))
        return mask[:, None, None]

    def _decode(self, tokens: Tensor, positions: Tensor, mask: Tensor | None) -> Tensor:
        return self.model.get_decoder()(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def _check_attention(config: Any, columns: int) -> None:
    """ValueError where a layer does not attend to all tokens before: then rows would need another mask."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None) if "sliding_attention" in kinds else None
    if kinds - {"full_attention", "sliding_attention"} or (window is not None and window < columns):
        raise ValueError(
            f"the transformers engine cannot run layers of {', '.join(sorted(kinds))} on {columns} tokens; "
            "use engine.type=vllm"
        )


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

    query: [N, KV heads, queries a KV head, size], scaled; key, value: [N, KV heads, W, size], in the cache's dtype;
    mask: additive, [N, 1, 1, W]. torch's fused kernel takes every head of every row by itself, which on CPU is up to
    ten times as slow.
    """
    scores = torch.matmul(query.to(key.dtype), key.transpose(2, 3))
    if mask is not None:
        scores += mask
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(value.dtype)
    return torch.matmul(weights, value).to(query.dtype)


def fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """The same as sums of products, which a compiler turns into loops over the cache without copies of it."""
    scores = (query.unsqueeze(3).float() * key.unsqueeze(2).float()).sum(-1)
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(dim=-1)
    return (weights.unsqueeze(-1) * value.unsqueeze(2).float()).sum(-2).to(query.dtype)


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
        """query: [N, heads, T, size]; key, value: [N, KV heads, W, size of each]; attention_mask: additive,
        [N, 1, 1, W]."""
        if query.shape[2] > 1:
            return sdpa_attention_forward(
                module, query, key, value, attention_mask, scaling=scaling, **kwargs
            )
        rows, heads, _, size = query.shape
        kv_heads = key.shape[1]
        grouped = query.view(rows, kv_heads, heads // kv_heads, size) * (scaling or size**-0.5)
        return kernel(grouped, key, value, attention_mask).reshape(rows, 1, heads, -1), None

    return attend
