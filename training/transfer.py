"""Weights on their way from trainer to generator: in buckets, each one array of bytes, with a checksum over all.

A bucket is a plain numpy array: Ray's object store keeps it in shared memory, where every engine of the node reads it
without a copy. The checksum is taken before packing and again from what an engine has loaded.
"""

import functools
import math
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

BUCKET_BYTES = 256 << 20
_PERIOD = 65_521  # prime: positions a power of two apart have different factors
_WORD_BYTES = 8
_CHUNK_WORDS = 16 * _PERIOD  # counted at a time: a large tensor needs no second copy


class TransferError(RuntimeError):
    """Weights that did not arrive as they were sent; the message says which version and why."""


@dataclass(frozen=True)
class Slot:
    """One tensor's place in a bucket; `offset` and size in bytes."""

    name: str
    dtype: str  # as in torch: "bfloat16"
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Bucket:
    """Consecutive tensors, back to back, each aligned to 16 bytes."""

    slots: list[Slot]
    data: np.ndarray  # uint8, one dimension


@dataclass(frozen=True)
class Weights:
    """All weights of one version."""

    buckets: list[Bucket]
    checksum: int


def pack(named: Iterable[tuple[str, Tensor]], bucket_bytes: int = BUCKET_BYTES) -> Weights:
    """Weights of (name, tensor) pairs, in their order. A tensor larger than a bucket gets one of its own."""
    total = Checksum()
    buckets = []
    for part in in_buckets(named, bucket_bytes):
        for name, tensor in part:
            total.add(name, tensor)
        slots, size = layout(part)
        data = torch.zeros(size, dtype=torch.uint8)
        fill(data, slots, part)
        buckets.append(Bucket(slots, data.numpy()))
    return Weights(buckets, total.value)


def in_buckets(named: Iterable[tuple[str, Tensor]], bucket_bytes: int) -> Iterator[list[tuple[str, Tensor]]]:
    """Consecutive pairs that fit into a bucket together, one bucket's at a time."""
    waiting: list[tuple[str, Tensor]] = []
    size = 0
    for name, tensor in named:
        if waiting and size + _aligned(tensor.nbytes) > bucket_bytes:
            yield waiting
            waiting, size = [], 0
        waiting.append((name, tensor))
        size += _aligned(tensor.nbytes)
    if waiting:
        yield waiting


def layout(named: Iterable[tuple[str, Tensor]]) -> tuple[list[Slot], int]:
    """Where the tensors of one bucket lie in it, and its size in bytes."""
    slots, offset = [], 0
    for name, tensor in named:
        slots.append(Slot(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), offset))
        offset += _aligned(tensor.nbytes)
    return slots, offset


def fill(data: Tensor, slots: Iterable[Slot], named: Iterable[tuple[str, Tensor]]) -> None:
    """Copy tensors into their slots of `data`, uint8 of one dimension, on any device."""
    for slot, (_, tensor) in zip(slots, named, strict=True):
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        data[slot.offset : slot.offset + tensor.nbytes].copy_(flat)


def unpack(buckets: Iterable[Bucket]) -> Iterator[tuple[str, Tensor]]:
    """The (name, tensor) pairs; tensors share the buckets' memory and must not be written to."""
    for bucket in buckets:
        yield from tensors_in(_as_tensor(bucket.data), bucket.slots)


def map_file(path: str) -> Tensor:
    """A file's bytes, uint8 of one dimension, mapped into memory and not copied; they must not be written to."""
    return (
        _as_tensor(np.memmap(path, np.uint8, mode="r")) if os.path.getsize(path) else _as_tensor(np.zeros(0))
    )


def tensors_in(data: Tensor, slots: Iterable[Slot]) -> Iterator[tuple[str, Tensor]]:
    """The (name, tensor) pairs of one bucket's bytes, whose memory they share."""
    for slot in slots:
        dtype = getattr(torch, slot.dtype)
        count = math.prod(slot.shape) * dtype.itemsize
        yield slot.name, data[slot.offset : slot.offset + count].view(dtype).reshape(slot.shape)


class Checksum:
    """A sum over names and bits of tensors, in any order, on any device; 64 bits.

    Every word of a tensor counts with a factor that depends on its position, so that neither a changed, a swapped nor a
    missing word leaves the sum as it was. It guards against mistakes, not against malice.
    """

    def __init__(self) -> None:
        self.value = 0

    def add(self, name: str, tensor: Tensor) -> None:
        """Count one tensor."""
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        if flat.storage_offset() % _WORD_BYTES or len(flat) % _WORD_BYTES:
            flat = torch.nn.functional.pad(flat, (0, -len(flat) % _WORD_BYTES))  # a copy, so whole words
        words = flat.view(torch.int64)
        if len(words) <= _CHUNK_WORDS:  # most tensors of a small model: every operation counts there
            own = int(_weighted(words).item())
        else:
            own = int(torch.stack([_weighted(part) for part in words.split(_CHUNK_WORDS)]).sum().item())
        seed = int.from_bytes(f"{name}{tuple(tensor.shape)}".encode()[-32:], "little") % (1 << 61)
        self.value = (self.value + own * (2 * seed + 1) + seed) % (1 << 64)

    def add_all(self, named: Iterable[tuple[str, Tensor]]) -> None:
        """Count all pairs."""
        for name, tensor in named:
            self.add(name, tensor)


def _weighted(words: Tensor) -> Tensor:
    """Sum of the words, each times its factor; modulo 2**64. At most `_CHUNK_WORDS` words."""
    return (words * _factors(words.device)[: len(words)]).sum()


@functools.cache
def _factors(device: torch.device) -> Tensor:
    """Odd ones, so that no bit of a word is lost modulo 2**64."""
    return torch.arange(_CHUNK_WORDS, device=device) % _PERIOD * 2 + 1


def checksum(named: Iterable[tuple[str, Tensor]]) -> int:
    """Of all pairs, in any order."""
    total = Checksum()
    total.add_all(named)
    return total.value


def _as_tensor(data: np.ndarray) -> Tensor:
    """The same memory; torch warns of read-only arrays, as the object store's are."""
    if not data.size:
        return torch.zeros(0, dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(data)


def _aligned(size: int) -> int:
    return (size + 15) // 16 * 16
