"""Validation, before anything is computed: what comes out of here can be fitted or refused, never crash."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from scaling.curve import Array

MIN_POINTS = 5
MAX_REWARD = 1e9  # for rewards that are not pass rates; squares of more lose all digits

Window = tuple[float | None, float | None]


class InputError(ValueError):
    """Data that cannot be fitted. `row`: 0-based index of the offending point or None; `reason`: one sentence."""

    def __init__(self, reason: str, row: int | None = None) -> None:
        self.row = row
        self.reason = reason
        super().__init__(reason if row is None else f"point {row}: {reason}")


@dataclass(frozen=True)
class Points:
    """The points of the window, sorted by compute: arrays [n]; `stderr` None where the noise is unknown, `work` where
    compute is all that is known of what was done."""

    compute: Array
    reward: Array
    stderr: Array | None
    r0_observed: Array
    work: Array | None = None

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the numbers used, as little-endian doubles: the same data, the same digest."""
        parts = [self.compute, self.reward, self.r0_observed]
        if self.stderr is not None:
            parts.append(self.stderr)
        return hashlib.sha256(b"|".join(p.astype("<f8").tobytes() for p in parts)).hexdigest()

    def of(self, chosen: np.ndarray) -> "Points":
        """Those of a mask [n] or of these places."""
        stderr, work = (None if each is None else each[chosen] for each in (self.stderr, self.work))
        return Points(self.compute[chosen], self.reward[chosen], stderr, self.r0_observed, work)


def prepare(
    compute: ArrayLike,
    reward: ArrayLike,
    *,
    window: Window | None = None,
    stderr: ArrayLike | None = None,
    r0_observed: Sequence[float] | None = None,
    bounded: bool = True,
    work: ArrayLike | None = None,
) -> Points:
    """Checked points of the window, sorted by compute (ties by reward).

    Raises InputError for unequal lengths, non-numbers, non-finite values, compute <= 0, work <= 0 or falling, a reward
    outside [0, 1] (unless `bounded` is False), a bad or empty window, or fewer than MIN_POINTS points in it.
    """
    c, r = check_pairs(compute, reward, bounded=bounded)
    e = None if stderr is None else _stderr(stderr, len(c))
    w = None if work is None else _work(work, c)
    start = np.empty(0) if r0_observed is None else _column("r0_observed", r0_observed)
    _check_rewards("r0_observed", start, bounded)
    keep = np.flatnonzero(_inside(c, window))
    _check_count(len(keep), len(c), window)
    order = keep[np.lexsort((r[keep], c[keep]))]
    return Points(c, r, e, np.sort(start), w).of(order)


def check_pairs(compute: ArrayLike, reward: ArrayLike, *, bounded: bool) -> tuple[Array, Array]:
    """Computes and rewards as arrays [n]; InputError for lengths, non-numbers, compute <= 0, rewards out of range."""
    c, r = _column("compute", compute), _column("reward", reward)
    if len(c) != len(r):
        raise InputError(f"{len(c)} computes but {len(r)} rewards")
    _reject("compute", c, ~(c > 0), "is not above zero")
    _check_rewards("reward", r, bounded)
    return c, r


def check_fraction(name: str, value: float) -> float:
    """`value` as a float strictly between 0 and 1; InputError otherwise."""
    if not (isinstance(value, int | float) and 0.0 < value < 1.0):
        raise InputError(f"{name} {value!r} is not between 0 and 1")
    return float(value)


def _column(name: str, values: ArrayLike) -> Array:
    try:
        column = np.array(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not a list of numbers ({error})") from None
    if column.ndim != 1:
        raise InputError(f"{name} is not a flat list of numbers")
    _reject(name, column, ~np.isfinite(column), "is not a finite number")
    return column


def _reject(name: str, column: Array, bad: np.ndarray, why: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name} {column[row]:g} {why}", row)


def _check_rewards(name: str, column: Array, bounded: bool) -> None:
    if bounded:
        _reject(name, column, (column < 0) | (column > 1), "is not between 0 and 1")
    _reject(name, column, np.abs(column) > MAX_REWARD, f"is beyond {MAX_REWARD:g}")


def _work(values: ArrayLike, compute: Array) -> Array:
    """Ascending where compute is."""
    column = _column("work", values)
    if len(column) != len(compute):
        raise InputError(f"{len(compute)} computes but {len(column)} of work")
    _reject("work", column, ~(column > 0), "is not above zero")
    order = np.lexsort((column, compute))
    falls = np.zeros(len(column), bool)
    falls[order[1:]] = np.diff(column[order]) < 0
    _reject("work", column, falls, "is less than at less compute")
    return column


def rising(work: Array) -> Array | None:
    """The work [n] of evaluations by compute, as `prepare` takes it; None where one is not known (NaN), not above zero
    or less than the one before."""
    return work if (work > 0).all() and (np.diff(work) >= 0).all() else None


def _stderr(values: ArrayLike, n: int) -> Array | None:
    """Standard errors; a zero (a pass rate of exactly 0 or 1) gets the median of the others, never weight inf."""
    column = _column("stderr", values)
    if len(column) != n:
        raise InputError(f"{n} computes but {len(column)} standard errors")
    _reject("stderr", column, column < 0, "is below zero")
    positive = column[column > 0]
    if not len(positive):
        return None
    return np.maximum(np.where(column > 0, column, np.median(positive)), 1e-3 * positive.max())


def _inside(c: Array, window: Window | None) -> np.ndarray:
    lo, hi = window if window is not None else (None, None)
    for end in (lo, hi):
        if end is not None and math.isnan(end):
            raise InputError("an end of the window is not a number")
    if lo is not None and hi is not None and lo > hi:
        raise InputError(f"the window {lo:g}:{hi:g} is empty: its start is after its end")
    inside = np.ones(len(c), dtype=bool)
    if lo is not None:
        inside &= c >= lo
    if hi is not None:
        inside &= c <= hi
    return inside


def _check_count(used: int, given: int, window: Window | None) -> None:
    if used >= MIN_POINTS:
        return
    where = f" in the window ({given} given)" if used < given and window is not None else ""
    count = "no points" if used == 0 else "only 1 point" if used == 1 else f"only {used} points"
    raise InputError(f"{count}{where}: at least {MIN_POINTS} are needed")
