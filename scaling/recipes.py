"""Recipes with several runs along the compute axis: the mean curve of Eq. 1 with its band, and where two curves cross.

The estimate is that of `scaling.seeds.pool`, for many columns at once (computes of one recipe, or recipes of one
project) and without the interval of the variation between seeds, which takes most of its time.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from scaling.curve import Array, Bools
from scaling.points import check_fraction

_BISECTIONS = 100


@dataclass(frozen=True)
class Columns:
    """m pooled values: arrays [m]. lo, hi: interval at `level`, infinite where open, NaN with `value` where no run says
    anything. runs: how many pinned it. The interval takes the wider of the normal one, by the runs' own noise, and
    Student's, by how far they lie apart."""

    value: Array
    lo: Array
    hi: Array
    runs: np.ndarray
    level: float


def pool_columns(
    values: ArrayLike, lo: ArrayLike, hi: ArrayLike, *, quantile: ArrayLike, level: float = 0.9
) -> Columns:
    """Pool k runs in each of m columns: values, lo, hi [k, m]; NaN where a run has nothing to say.

    lo, hi: each run's own interval at `level`, infinite where open; quantile, a number, [k] or [k, m]: how many
    standard errors its half width has. A run with an open end adds nothing and leaves that end open, as in
    `scaling.seeds.joint`; the only run of a column keeps its own interval. Raises ValueError without runs.
    """
    check_fraction("level", level)
    y, low, high = (np.atleast_2d(np.asarray(column, dtype=float)) for column in (values, lo, hi))
    if not len(y):
        raise ValueError("no seeds")
    q = np.asarray(quantile, dtype=float)
    q = q[:, None] if q.ndim == 1 else q
    there = np.isfinite(y)
    usable = there & np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore"):
        se = np.where(usable, (high - low) / (2.0 * q), 0.0)
    if len(y) == 1:  # nothing to pool, and pages ask for hundreds of single runs
        lower, upper = (np.where(there, end, np.nan)[0] for end in (low, high))
        return Columns(y[0], lower, upper, usable[0].astype(int), level)
    value, plain, scaled, runs = _random_effects(np.where(usable, y, 0.0), se, usable)
    reach = _reach(np.full((1, 1), 0.5 * level), plain, scaled, runs[None, :])[0]
    lower, upper = value - reach, value + reach
    one = there.sum(axis=0) == 1
    value, lower, upper = (
        np.where(one, np.nansum(np.where(there, own, np.nan), axis=0), pooled)
        for own, pooled in ((y, value), (low, lower), (high, upper))
    )
    lower = np.where((there & np.isneginf(low)).any(axis=0), -np.inf, lower)
    upper = np.where((there & np.isposinf(high)).any(axis=0), np.inf, upper)
    nothing = ~usable.any(axis=0) & ~one
    value, lower, upper = (np.where(nothing, np.nan, column) for column in (value, lower, upper))
    return Columns(value, lower, upper, runs, level)


def cut_to_rates(columns: Columns) -> Columns:
    """The same with its intervals cut to [0, 1]; open ends stay open."""
    lo = np.where(np.isfinite(columns.lo), np.maximum(columns.lo, 0.0), columns.lo)
    hi = np.where(np.isfinite(columns.hi), np.minimum(columns.hi, 1.0), columns.hi)
    return Columns(columns.value, lo, hi, columns.runs, columns.level)


@dataclass(frozen=True)
class MeanCrossing:
    """Where two mean curves cross last; `interval`: the computes around it where the difference may be zero, an end is
    None where the range looked at ends first. a_after: whether the first is above at the end of the range, None where
    that is open. All None where the curves do not cross."""

    compute: float | None
    interval: tuple[float | None, float | None]
    a_after: bool | None
    within: tuple[float, float]
    level: float


def crossing_of_means(a: Columns, b: Columns, compute: ArrayLike) -> MeanCrossing:
    """The last crossing of two mean curves given at the same compute [m], ascending.

    The interval is a confidence set: the difference of the means, with the interval of `scaling.compare.difference` at
    each compute, holds zero there.
    """
    c = np.asarray(compute, dtype=float)
    gap = a.value - b.value
    lo = gap - np.hypot(a.value - a.lo, b.hi - b.value)
    hi = gap + np.hypot(a.hi - a.value, b.value - b.lo)
    undecided = (lo <= 0) & (hi >= 0)
    after = None if undecided[-1] else bool(gap[-1] > 0)
    within = (float(c[0]), float(c[-1]))
    changes = np.flatnonzero((gap[1:] > 0) != (gap[:-1] > 0))
    if not len(changes):
        return MeanCrossing(None, (None, None), after, within, a.level)
    k = int(changes[-1])
    way = gap[k] / (gap[k] - gap[k + 1])
    at = float(c[k] * (c[k + 1] / c[k]) ** way)
    return MeanCrossing(at, _around(c, undecided, k), after, within, a.level)


def _around(c: Array, undecided: Bools, k: int) -> tuple[float | None, float | None]:
    """Ends of the undecided stretch that holds the crossing between k and k + 1; the nearest computes that decide."""
    first, last = k, k + 1
    while first >= 0 and undecided[first]:
        first -= 1
    while last < len(c) and undecided[last]:
        last += 1
    return (None if first < 0 else float(c[first])), (None if last >= len(c) else float(c[last]))


def _reach(half: Array, plain: Array, scaled: Array, runs: np.ndarray) -> Array:
    """Half width [n, m] that holds a probability of twice `half` [n, 1]."""
    upper = 0.5 + half
    normal = ndtri(upper) * plain
    several = runs > 1
    student = stdtrit(np.where(several, runs - 1, 1), upper) * scaled
    return np.where(several, np.maximum(normal, student), normal)


def _random_effects(y: Array, se: Array, usable: Bools) -> tuple[Array, Array, Array, np.ndarray]:
    """(mean, plain and scaled standard error, runs), each [m]; see `scaling.seeds.pool`."""
    runs = usable.sum(axis=0)
    v = np.maximum(se**2, 1e-24 * np.maximum(1.0, (y**2).max(axis=0)))
    goal = np.maximum(runs - 1.0, 0.0)

    def weighted(tau2: Array) -> tuple[Array, Array, Array]:
        w = np.where(usable, 1.0 / (v + tau2), 0.0)
        total = np.maximum(w.sum(axis=0), 1e-300)
        mean = (w * y).sum(axis=0) / total
        return mean, (w * (y - mean) ** 2).sum(axis=0), total

    lo = np.zeros(y.shape[1])
    differ = (runs > 1) & (weighted(lo)[1] > goal)
    centre = np.where(usable, y, 0.0).sum(axis=0) / np.maximum(runs, 1)
    spread = np.where(usable, (y - centre) ** 2, 0.0).sum(axis=0)
    hi = np.where(differ, np.maximum(spread / np.maximum(goal, 1.0), 1e-300), 0.0)
    if differ.any():
        for _ in range(_BISECTIONS):
            middle = 0.5 * (lo + hi)
            above = weighted(middle)[1] > goal
            lo, hi = np.where(above, middle, lo), np.where(above, hi, middle)
    mean, q, total = weighted(hi)
    plain = 1.0 / np.sqrt(total)
    scaled = plain * np.sqrt(q / np.maximum(goal, 1.0))
    return mean, plain, scaled, runs


def log_columns(columns: Columns) -> Columns:
    """Columns that were pooled as logarithms, as amounts; standard errors stay those of the logarithm."""
    with np.errstate(over="ignore"):
        value, lo, hi = (np.exp(column) for column in (columns.value, columns.lo, columns.hi))
    lo = np.where(np.isneginf(columns.lo), -math.inf, lo)
    return Columns(value, lo, hi, columns.runs, columns.level)
