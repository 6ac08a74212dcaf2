"""Two curves against each other anywhere along the compute axis: how likely one is above, and where they cross.

The rule of the paper (`scaling.compare`) judges ceilings. A budget ends before the ceiling, so here both curves
are drawn from what their data allow (`scaling.draws`, with its flat prior) and compared where the budget ends. The two
runs count as independent, and as one seed each: nothing here knows how far another seed would be.
"""

import math
from dataclasses import dataclass

import numpy as np

from scaling.curve import Array, Bools
from scaling.draws import chance, draws, interval
from scaling.intervals import Interval
from scaling.models import Fit

N = 4000  # draws of each curve: probabilities are good to about 0.01
MIN_CROSSING = 40  # draws that must cross before their quantiles are an interval
_GRID = 240  # computes at which the order of the curves is looked at
_AHEAD = 10.0  # the range looked at ends this many times beyond the last compute, if none is given

Range = tuple[float, float]


@dataclass(frozen=True)
class Crossing:
    """compute: where the best curves cross last within the range, None where they do not. interval: of the crossing,
    given that there is one; both ends are None where too few draws cross. probability: that the curves cross within the
    range at all. a_after: probability that the first is above at the end of the range."""

    compute: float | None
    interval: Interval
    probability: float
    a_after: float
    within: Range
    level: float

    @property
    def sentence(self) -> str:
        """In words: "the curves cross at 320 [210, 800]; ..."."""
        span = f"between {self.within[0]:.4g} and {self.within[1]:.4g}"
        likely = f"they cross {span} with probability {chance(self.probability)}"
        lo, hi = self.interval
        where = (
            ""
            if lo is None or hi is None
            else f"[{lo:.4g}, {hi:.4g}] ({100 * self.level:.3g} %, given that they cross)"
        )
        if self.compute is None:
            first = f"the best curves do not cross {span}"
        else:
            first = f"the best curves cross at {self.compute:.4g}"
        ends = f"at its end the first is above with probability {chance(self.a_after)}"
        return "; ".join([f"{first} {where}".rstrip(), likely, ends])


def probability_above(a: Fit, b: Fit, compute: float, *, n: int = N, seed: int = 0) -> float:
    """P(curve of `a` > curve of `b`) at `compute` (> 0; infinity is the ceiling), a tie counting half.

    Where a ceiling is not identified and `compute` lies far beyond the points, this rests on the prior.
    Raises ValueError for a failed fit or a compute that is not above zero.
    """
    if not compute > 0:
        raise ValueError("a comparison needs a compute above zero")
    rng = np.random.default_rng(seed)
    first, second = (np.sort(draws(one, n, rng).predict(compute)[:, 0]) for one in (a, b))
    below = np.searchsorted(second, first, side="left") + np.searchsorted(second, first, side="right")
    return float(below.mean() / (2.0 * n))


def crossing(
    a: Fit, b: Fit, *, within: Range | None = None, level: float | None = None, n: int = N, seed: int = 0
) -> Crossing:
    """Where the curves cross, within a range of compute: the last crossing, after which the order stays.

    within: (lo, hi), 0 < lo < hi; by default from the first compute of either to ten times the last. level: of the
    interval; that of `a` by default. Raises ValueError for a failed fit or an impossible range.
    """
    lo, hi = span(a, b) if within is None else within
    if not (0 < lo < hi < math.inf):
        raise ValueError(f"the range {lo:g} to {hi:g} is not one of computes above zero")
    level = a.level if level is None else level
    grid = np.geomspace(lo, hi, _GRID)
    rng = np.random.default_rng(seed)
    gap = draws(a, n, rng).predict(grid) - draws(b, n, rng).predict(grid)
    at, crosses = _last_change(np.log(grid), gap)
    best, has = _last_change(np.log(grid), (a.predict(grid) - b.predict(grid))[None])
    compute = float(np.exp(best[0])) if has[0] else None
    ends = _interval(np.exp(at[crosses]), compute, level)
    return Crossing(compute, ends, float(crosses.mean()), float((gap[:, -1] > 0).mean()), (lo, hi), level)


def span(a: Fit, b: Fit) -> Range:
    """From the first compute of either fit to ten times the last."""
    return min(a.window[0], b.window[0]), _AHEAD * max(a.window[1], b.window[1])


def _last_change(x: Array, gap: Array) -> tuple[Array, Bools]:
    """(x where each row of `gap` [n, c] changes sign last, by straight interpolation; whether it does)."""
    above = gap > 0
    differs = above != above[:, -1:]
    crosses = differs.any(axis=1)
    last = np.where(crosses, gap.shape[1] - 1 - differs[:, ::-1].argmax(axis=1), 0)
    rows = np.arange(len(gap))
    left, right = gap[rows, last], gap[rows, np.minimum(last + 1, gap.shape[1] - 1)]
    step = np.where(crosses, left - right, 1.0)
    way = np.clip(left / step, 0.0, 1.0)
    return x[last] + way * (x[np.minimum(last + 1, len(x) - 1)] - x[last]), crosses


def _interval(computes: Array, best: float | None, level: float) -> Interval:
    if len(computes) < MIN_CROSSING:
        return None, None
    lo, hi = (float(end) for end in interval(computes, level))
    return (lo, hi) if best is None else (min(lo, best), max(hi, best))
