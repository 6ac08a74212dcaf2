"""Scores of forecasts after the fact: intervals, probabilities, and how far a coverage can be trusted.

All scores are negatively oriented (less is better) and proper: whoever says what they believe does best in expectation.

| score | formula | source |
|---|---|---|
| interval | (hi - lo) + 2/a (lo - y)+ + 2/a (y - hi)+, a = 1 - level | Gneiting, Raftery 2007 eq. 43 |
| Brier | (p - happened)**2 | Brier 1950 |
| logarithmic | -log(p) where it happened, -log(1 - p) where not | Good 1952 |
| exact interval of a proportion | beta quantiles | Clopper and Pearson 1934 |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from scaling.curve import Array
from scaling.points import check_fraction

LATE = 0.125  # of the compute, at the end of a run: what came is the mean pass rate over it


def late_mean(compute: Array, reward: Array) -> tuple[float, float, int]:
    """(mean compute, mean pass rate, evaluations) of the last eighth of the compute; compute [n] ascending, n > 0."""
    late = compute > (1.0 - LATE) * compute[-1]
    return float(compute[late].mean()), float(reward[late].mean()), int(late.sum())


def interval_score(lo: ArrayLike, hi: ArrayLike, y: ArrayLike, level: ArrayLike) -> Array:
    """Interval score of central intervals [lo, hi] of `level` in (0, 1) for what came, y; shapes broadcast.

    In the unit of y: the width, and 2 / (1 - level) times how far y lies outside. Least in expectation for the
    (1 - level) / 2 and (1 + level) / 2 quantiles of what is believed (Gneiting and Raftery 2007,
    doi:10.1198/016214506000001437, eq. 43). Raises ValueError where lo > hi or a level is not in (0, 1).
    """
    low, high, came, claimed = (np.asarray(v, dtype=float) for v in (lo, hi, y, level))
    if not (low <= high).all():
        raise ValueError("an interval ends before it starts")
    if not ((claimed > 0) & (claimed < 1)).all():
        raise ValueError("a level lies between 0 and 1")
    outside = np.maximum(low - came, 0.0) + np.maximum(came - high, 0.0)
    return (high - low) + 2.0 / (1.0 - claimed) * outside


def brier_score(probability: ArrayLike, happened: ArrayLike) -> Array:
    """(p - 1)**2 where it happened, p**2 where it did not; p in [0, 1]. Raises ValueError for another p."""
    p = _probabilities(probability)
    return (p - np.asarray(happened, dtype=float)) ** 2


def log_score(probability: ArrayLike, happened: ArrayLike) -> Array:
    """-log of the probability given to what came (natural logarithm); infinite where it was called impossible."""
    p = _probabilities(probability)
    given = np.where(np.asarray(happened, dtype=bool), p, 1.0 - p)
    with np.errstate(divide="ignore"):
        return -np.log(given)


def _probabilities(probability: ArrayLike) -> Array:
    p = np.asarray(probability, dtype=float)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("a probability lies between 0 and 1")
    return p


@dataclass(frozen=True)
class Coverage:
    """`inside` of `n` intervals held what came: `observed` share with its exact interval [lo, hi] of `level`; all None
    for n = 0. `claimed`: the mean of the levels that were claimed."""

    n: int
    inside: int
    claimed: float | None
    observed: float | None
    lo: float | None
    hi: float | None
    level: float


def coverage(inside: Sequence[bool], claimed: Sequence[float], *, level: float = 0.9) -> Coverage:
    """Observed against claimed coverage. The interval takes the predictions as independent: where several were judged
    by one run it is too narrow. Raises ValueError for unequal lengths, InputError for a level outside (0, 1)."""
    if len(inside) != len(claimed):
        raise ValueError(f"{len(inside)} outcomes but {len(claimed)} levels")
    n, k = len(inside), int(sum(bool(one) for one in inside))
    if n == 0:
        return Coverage(0, 0, None, None, None, None, level)
    lo, hi = clopper_pearson(k, n, level)
    return Coverage(n, k, math.fsum(claimed) / n, k / n, lo, hi, level)


def clopper_pearson(k: int, n: int, level: float = 0.9) -> tuple[float, float]:
    """Exact interval of a proportion from k successes of n: covers at least `level` whatever the proportion is.

    The ends are quantiles of Beta(k, n - k + 1) and Beta(k + 1, n - k) (Clopper and Pearson 1934,
    doi:10.1093/biomet/26.4.404). Raises ValueError unless 0 <= k <= n and n > 0, InputError for a level outside (0, 1).
    """
    if not (0 <= k <= n and n > 0):
        raise ValueError(f"{k} of {n} is no proportion")
    tail = 0.5 * (1.0 - check_fraction("level", level))
    lo = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, tail))
    hi = 1.0 if k == n else float(betaincinv(k + 1, n - k, 1.0 - tail))
    return lo, hi


@dataclass(frozen=True)
class Bin:
    """Probabilities in [start, end) (the last one with its end): n of them, their mean, the share that happened with
    its exact interval."""

    start: float
    end: float
    n: int
    mean: float
    happened: float
    lo: float
    hi: float


def reliability(
    probability: Sequence[float], happened: Sequence[bool], *, bins: int = 5, level: float = 0.9
) -> tuple[Bin, ...]:
    """Probabilities against frequencies in `bins` bins of equal width; empty bins are left out."""
    p = _probabilities(probability)
    came = np.asarray(happened, dtype=bool)
    if len(p) != len(came):
        raise ValueError(f"{len(p)} probabilities but {len(came)} outcomes")
    place = np.minimum((p * bins).astype(int), bins - 1)
    return tuple(
        _bin(p[place == i], came[place == i], i, bins, level) for i in range(bins) if (place == i).any()
    )


def _bin(p: Array, came: np.ndarray, i: int, bins: int, level: float) -> Bin:
    lo, hi = clopper_pearson(int(came.sum()), len(p), level)
    return Bin(i / bins, (i + 1) / bins, len(p), float(p.mean()), float(came.mean()), lo, hi)


def relative_score(
    scores: ArrayLike, baseline: ArrayLike, *, level: float = 0.9, n: int = 4000, seed: int = 0
) -> tuple[float, float, float]:
    """Mean of `scores` [k] over mean of `baseline` [k] (of the same outcomes), with its bootstrap interval of `level`.

    Below 1: better than the baseline. The interval is that of percentiles over `n` resamplings of the pairs (Efron
    1979). Raises ValueError for unequal lengths, no scores, or a baseline without any.
    """
    s, b = np.asarray(scores, dtype=float), np.asarray(baseline, dtype=float)
    if len(s) != len(b) or not len(s):
        raise ValueError("scores and their baseline come in pairs")
    if not b.sum() > 0:
        raise ValueError("a baseline of zero compares with nothing")
    drawn = np.random.default_rng(seed).integers(len(s), size=(n, len(s)))
    tops, bottoms = s[drawn].mean(axis=1), b[drawn].mean(axis=1)
    ratio = tops[bottoms > 0] / bottoms[bottoms > 0]
    tail = 0.5 * (1.0 - check_fraction("level", level))
    lo, hi = (float(end) for end in np.quantile(ratio, [tail, 1.0 - tail]))
    value = float(s.mean() / b.mean())
    return value, min(lo, value), max(hi, value)
