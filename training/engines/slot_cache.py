"""The KV cache: how much memory an engine gets for it and whether one sequence of full length fits, and that of the
transformers engine: one row a sequence, allocated once.

Rows 0 ... n - 1 are in use and a sequence's tokens lie at columns 0 ... length - 1: what a step needs is a view.
Keys are kept as [slots, heads, size, columns] and values as [slots, heads, columns, size]: then both products of a
step run along contiguous memory. Latent attention (DeepSeek V3) keeps its latent and the part of a key that rotates, of
which all heads make theirs: one head, two sizes.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.schema import Recipe

GIB = 1 << 30


class SlotCache:
    """What transformers' decoders call a cache: they hand over the keys and values of each layer's new tokens.

    Say before each forward pass what the pass is: `prefill` or `step`.
    """

    def __init__(self, config: Any, slots: int, columns: int, dtype: torch.dtype, device: str) -> None:
        (heads, key, value), layers = _kept(config), range(config.num_hidden_layers)
        self._keys = [_allocate((slots, heads, key, columns), dtype, device) for _ in layers]
        self._values = [_allocate((slots, heads, columns, value), dtype, device) for _ in layers]
        self._all_rows = torch.arange(slots, device=device)
        self._num_clean = 0  # rows that hold numbers: what a mask hides must not be a NaN
        self._is_step = False
        self._rows = slice(0)
        self._width = 0
        self._source: Tensor | None = None
        self._columns = self._all_rows[:0]

    @staticmethod
    def row_bytes(config: Any, columns: int, dtype: torch.dtype, devices: int = 1) -> int:
        """Memory of one sequence on each of an engine's devices, of which each has one head or more."""
        heads, key, value = _kept(config)
        return config.num_hidden_layers * -(-heads // devices) * (key + value) * columns * dtype.itemsize

    def prefill(self, rows: slice, width: int, source: Tensor | None = None) -> None:
        """The next pass fills columns 0 ... width - 1 of `rows`; row i gets what the pass computes in row source[i]."""
        self._is_step, self._rows, self._width, self._source = False, rows, width, source
        self._clean(rows.stop)

    def step(self, columns: Tensor, width: int) -> None:
        """The next pass has one new token a row, for columns[i] of row i, and attends to columns before `width`."""
        self._is_step, self._rows, self._width = True, slice(len(columns)), width
        self._columns = columns
        self._clean(len(columns))

    def _clean(self, num_rows: int) -> None:
        """On first use and not before: memory that is never used is never claimed."""
        for cache in (*self._keys, *self._values):
            cache[self._num_clean : num_rows] = 0
        self._num_clean = max(self._num_clean, num_rows)

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any) -> tuple[Tensor, Tensor]:
        """Called by the decoder's layers, [rows, heads, new tokens, size]. Returns what they attend to."""
        own_keys, own_values = self._keys[layer], self._values[layer]
        if not self._is_step:
            chosen = slice(None) if self._source is None else self._source
            own_keys[self._rows, :, :, : self._width] = keys[chosen].transpose(2, 3)
            own_values[self._rows, :, : self._width] = values[chosen]
            return keys, values
        rows = self._all_rows[self._rows]
        own_keys[rows, :, :, self._columns] = keys.squeeze(2).to(own_keys.dtype)
        own_values[rows, :, self._columns] = values.squeeze(2).to(own_values.dtype)
        window = own_keys[self._rows, :, :, : self._width].transpose(2, 3)
        return window, own_values[self._rows, :, : self._width]

    def move(self, sources: list[int], targets: list[int], width: int) -> None:
        """Copy the first `width` columns of rows onto others."""
        for keys, values in zip(self._keys, self._values, strict=True):
            keys[targets, :, :, :width] = keys[sources, :, :, :width]
            values[targets, :, :width] = values[sources, :, :width]

    def get_seq_length(self, layer: int = 0) -> int:
        """Part of transformers' interface; positions are always given, so nothing depends on it."""
        return 0


def _allocate(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Tensor:
    """Uninitialised. On CPU by numpy, which asks the system for huge pages: a step reads from every row."""
    if device != "cpu":
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(math.prod(shape) * dtype.itemsize, np.uint8)).view(dtype).view(shape)


def _kept(config: Any) -> tuple[int, int, int]:
    """Of a token in each layer: heads, and the sizes of a key and of a value."""
    if getattr(config, "kv_lora_rank", None):
        return 1, config.kv_lora_rank, config.qk_rope_head_dim
    size = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads), size, size


@dataclass(frozen=True)
class Room:
    """Memory for the KV cache on one device, and who says so."""

    bytes: int
    reason: str


def kv_room(recipe: Recipe, device: str, weights_bytes: int = 0) -> Room:
    """What the recipe gives an engine, activations not counted. weights_bytes: of weights that are still to be loaded
    onto the device."""
    asked, engine = recipe.kv_cache_bytes, recipe.engine
    if asked is not None or not device.startswith("cuda"):
        size = asked or 0
        return Room(size, f"engine.kv_cache_mib ({size >> 20})")
    free, total = torch.cuda.mem_get_info()
    share = engine.gpu_memory_utilization
    return Room(
        max(0, int(free - (1 - share) * total) - weights_bytes),
        f"engine.gpu_memory_utilization ({share:g} of {total / GIB:.1f} GiB, of which {free / GIB:.1f} are free, "
        f"with {weights_bytes / GIB:.1f} GiB of weights to come)",
    )


def refuse_too_small(room: Room, recipe: Recipe, token_bytes: int) -> None:
    """ValueError where the room does not hold one sequence of the longest length. token_bytes: of one token's keys and
    values on one device."""
    wanted = recipe.rollout.max_sequence_tokens
    held = room.bytes // token_bytes
    if held < wanted:
        raise ValueError(
            f"{room.reason} does not hold one sequence of {wanted} tokens: it holds {held} of {token_bytes} bytes "
            f"each; one sequence needs {-(-wanted * token_bytes // (1 << 20))} MiB on each device"
        )
