"""The paper's rule for two fits of Eq. 1, and the ceiling A of a recipe from those of its seeds.

Pages compare recipes by `scaling.ranking`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from scaling.fitting import fit_points
from scaling.intervals import Interval
from scaling.models import Fit
from scaling.paper import MARGIN
from scaling.seeds import estimate_of, pool

Ceiling = tuple[float, float | None, float | None]


@dataclass(frozen=True)
class Comparison:
    """winner: "a", "b", "tie_ceiling" or "undecided"; delta_a: A of the first minus A of the second, with its
    interval. For a tie: the shared ceiling, both B refitted at it, and which is at least as efficient ("a", "b", or
    None where their intervals of B overlap)."""

    winner: str
    reason: str
    delta_a: float | None = None
    delta_a_interval: Interval = (None, None)
    shared_A: float | None = None
    B_a: float | None = None
    B_b: float | None = None
    B_a_interval: Interval = (None, None)
    B_b_interval: Interval = (None, None)
    more_efficient: str | None = None


def compare(a: Fit, b: Fit, *, margin: float = MARGIN) -> Comparison:
    """The paper's rule (section 2.1): ceilings further apart than `margin` decide; else both are refitted with the mean
    ceiling held fixed, and the higher B is at least as efficient.

    Undecided where either ceiling is not identified, and where the ceilings are further apart than `margin` but the
    interval of their difference holds zero. Both fits must be of one form and one unit of compute.
    """
    for name, one in (("first", a), ("second", b)):
        if one.status != "ok":
            return Comparison("undecided", f"the ceiling of the {name} is not known: {one.message}")
    if a.form != b.form:
        return Comparison("undecided", f"fits of different forms ({a.form}, {b.form}) cannot be compared")
    assert a.params is not None and b.params is not None
    delta, interval = difference((a.params["A"], *a.interval("A")), (b.params["A"], *b.interval("A")))
    if abs(delta) <= margin + 1e-12:
        return _tie(a, b, delta, interval, margin)
    lo, hi = interval
    if (lo is None or lo <= 0) and (hi is None or hi >= 0):
        ends = " to ".join("open" if end is None else f"{end:+.3f}" for end in interval)
        reason = f"the ceilings are {abs(delta):.3f} apart, but their difference may be zero ({ends})"
        return Comparison("undecided", reason, delta, interval)
    winner, side = ("a", "first") if delta > 0 else ("b", "second")
    reason = f"the {side} has the higher ceiling, by {abs(delta):.3f} (margin {margin:g})"
    return Comparison(winner, reason, delta, interval)


def difference(one: Ceiling, other: Ceiling) -> tuple[float, Interval]:
    """First minus second with its interval, from two independent estimates with skewed intervals of one level.

    The squared distances to the ends add up (Zou and Donner 2008, doi:10.1002/sim.3095). An open end stays open.
    """
    (a, a_lo, a_hi), (b, b_lo, b_hi) = one, other
    lo = None if a_lo is None or b_hi is None else a - b - math.hypot(a - a_lo, b_hi - b)
    hi = None if a_hi is None or b_lo is None else a - b + math.hypot(a_hi - a, b - b_lo)
    return a - b, (lo, hi)


def _tie(a: Fit, b: Fit, delta: float, interval: Interval, margin: float) -> Comparison:
    assert a.params is not None and b.params is not None
    shared = 0.5 * (a.params["A"] + b.params["A"])
    at_a, at_b = _at_ceiling(a, shared), _at_ceiling(b, shared)
    tie = f"the ceilings tie: {abs(delta):.3f} apart, within {margin:g}"
    if at_a.params is None or at_b.params is None:
        return Comparison(
            "tie_ceiling", f"{tie}; they cannot be refitted at {shared:.3f}", delta, interval, shared
        )
    b_a, b_b = at_a.params["B"], at_b.params["B"]
    interval_a, interval_b = at_a.interval("B"), at_b.interval("B")
    apart = not _overlap(interval_a, interval_b)
    higher, side = ("a", "first") if b_a > b_b else ("b", "second")
    detail = f"at the shared ceiling {shared:.3f} B is {b_a:.2f} and {b_b:.2f}"
    verdict = (
        f"the {side} is more efficient"
        if apart
        else "their intervals overlap, so neither is known to be more efficient"
    )
    return Comparison(
        "tie_ceiling",
        f"{tie}; {detail}: {verdict}",
        delta,
        interval,
        shared,
        b_a,
        b_b,
        interval_a,
        interval_b,
        higher if apart else None,
    )


def _at_ceiling(one: Fit, ceiling: float) -> Fit:
    """Refit with the ceiling held fixed, everything else as it was."""
    assert one.data is not None
    options = {**one.options, "a": ceiling}
    return fit_points(one.data, form=one.form, level=one.level, **options)


def _overlap(one: Interval, other: Interval) -> bool:
    """Whether two intervals share a point; None is unbounded."""

    def above(x: Interval, y: Interval) -> bool:
        return x[0] is not None and y[1] is not None and x[0] > y[1]

    return not above(one, other) and not above(other, one)


def recipe_ceiling(ceilings: Sequence[Ceiling], level: float = 0.9) -> Ceiling:
    """One ceiling (A, lo, hi) for a recipe from those of its seeds, intervals at `level`: `scaling.seeds.pool`.

    One seed keeps its own interval (which knows nothing of other seeds). An end that any seed leaves open is open.
    Few seeds have wide intervals: where every number given is in [0, 1], a pass rate, they are cut there.
    Raises ValueError without seeds.
    """
    if len(ceilings) == 1:
        return ceilings[0]
    z = float(ndtri(0.5 + 0.5 * level))
    pooled = pool([estimate_of(*ceiling, quantile=z) for ceiling in ceilings], level=level)
    lo, hi = pooled.lo, pooled.hi
    if all(0.0 <= x <= 1.0 for ceiling in ceilings for x in ceiling if x is not None):
        lo, hi = None if lo is None else max(lo, 0.0), None if hi is None else min(hi, 1.0)
    return pooled.value, lo, hi
