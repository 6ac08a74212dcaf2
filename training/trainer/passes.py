"""Which rows pass through the network together, on which rank: micro-batches on their way from arrays to the device.

Adds up the metrics of micro-batches.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.trainer.distributed import sum_over_ranks

FILLER_SHAPE = (2, 3)  # rows, tokens; a compiled layer would treat a 1 as a case of its own


@dataclass(frozen=True)
class MicroBatch:
    """n rows of a batch on the device, padded on the right to their longest.

    One without rows is a filler: its tokens pass through the network for nothing, because the other ranks' collectives
    wait for this rank. Take `of_rows` of what the network says.
    """

    rows: np.ndarray  # [n], in the batch
    tokens: Tensor  # [n, L]
    wanted: Tensor  # [n, L - 1] bool
    lengths: tuple[int, ...] | None = (
        None  # of the n, where they pass through the layers without their padding
    )

    @property
    def width(self) -> int:
        """Columns of what the network says: L - 1."""
        return self.wanted.shape[1]

    @property
    def inputs(self) -> tuple[Tensor, Tensor, tuple[int, ...] | None]:
        """What `Networks` takes."""
        return self.tokens, self.wanted, self.lengths

    def of_rows(self, value: Any) -> Any:
        """The value's rows that are in the batch: all, or none of a filler's. None stays None."""
        return None if value is None else value[: len(self.rows)]


def micro_batches_of(
    parts: list[np.ndarray],
    tokens: np.ndarray,
    lengths: np.ndarray,
    wanted: np.ndarray,
    *,
    device: str,
    is_packed: bool,
) -> Iterator[MicroBatch]:
    """A rank's micro-batches: `parts` are their rows, of which some may be none.

    tokens: [N, L]; lengths: [N]; wanted: [N, L - 1] bool.
    """
    for rows in parts:
        if len(rows):
            sizes, width = lengths[rows], int(lengths[rows].max())
            some, which = tokens[rows, :width], wanted[rows, : width - 1]
        else:
            some, which = np.zeros(FILLER_SHAPE, np.int64), np.zeros((2, FILLER_SHAPE[1] - 1), bool)
            sizes = np.full(*FILLER_SHAPE)
        yield MicroBatch(
            rows,
            torch.from_numpy(some).to(device),
            torch.from_numpy(which).to(device),
            tuple(map(int, sizes)) if is_packed else None,
        )


@torch.no_grad()
def evaluate(
    network: Callable[..., Any], share: Iterator[MicroBatch], shape: Any, *, counts: bool = True
) -> list[Tensor]:
    """What the network says of a whole batch: its outputs, each [N, L - 1] in `shape`, on the CPU of every rank.

    counts: whether this rank says what it found; of ranks with the same rows, one does.
    """
    found: list[Tensor] = []
    for part in share:
        said = [part.of_rows(value) for value in network(*part.inputs) if value is not None]
        found = found or [torch.zeros(shape) for _ in said]
        for whole, value in zip(found, said, strict=True):
            if counts:
                whole[torch.from_numpy(part.rows), : part.width] = value.cpu()
    return [sum_over_ranks(value) for value in found]


class Meter:
    """Losses add up; extremes (names ending in _max or _min) are the extreme; the others are means over tokens."""

    def __init__(self) -> None:
        self._loss, self._tokens = 0.0, 0
        self._values: dict[str, float] = {}

    def add(self, loss: float, metrics: dict[str, float], tokens: int) -> None:
        """One micro-batch with so many counted tokens; one without any has no metrics worth counting."""
        if not tokens:
            return
        self._loss += loss
        self._tokens += tokens
        for name, value in metrics.items():
            self._take(name, value if _is_extreme(name) else value * tokens)

    def _take(self, name: str, value: float) -> None:
        """An extreme, or a sum over tokens."""
        if name not in self._values:
            self._values[name] = value
        elif _is_extreme(name):
            best = max if name.endswith("_max") else min
            self._values[name] = best(self._values[name], value)
        else:
            self._values[name] += value

    @classmethod
    def together(cls, meters: Iterable["Meter"]) -> "Meter":
        """Of the micro-batches of all of them: one meter a rank."""
        total = cls()
        for meter in meters:
            total._loss += meter._loss
            total._tokens += meter._tokens
            for name, value in meter._values.items():
                total._take(name, value)
        return total

    def result(self) -> dict[str, float]:
        """Metrics of the batch; none where no token counted."""
        if not self._tokens:
            return {}
        means = {
            name: value if _is_extreme(name) else value / self._tokens for name, value in self._values.items()
        }
        return {"loss": self._loss, **means}


def _is_extreme(name: str) -> bool:
    return name.endswith(("_max", "_min"))
