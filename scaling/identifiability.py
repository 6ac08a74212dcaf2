"""Do the data pin the ceiling? Judged before any ceiling is shown.

There must be MIN_POINTS_TO_IDENTIFY evaluations: with fewer, a real curve that is not quite Eq. 1 gave narrow
intervals which its next points left. Two more things must hold, both at IDENTIFY_LEVEL (98 %, so that an unbent
curve passes about once in a hundred):

1. The reward rises: the curve fits better than a constant by more than noise does.
2. The curve has bent: with the bound A <= 1 lifted, the greatest gain A - R0 that the data allow is at most
   MAX_GAIN_RATIO times the least. The bound is lifted because it is not evidence: an interval that ends at 1 only
   because pass rates do says nothing about saturation, while a true ceiling of 0.98 may well touch 1.
"""

from dataclasses import replace

from scipy.special import fdtri

from scaling.intervals import build
from scaling.models import IDENTIFY_LEVEL, Likelihood
from scaling.ridge import trace
from scaling.solve import solve

MAX_GAIN_RATIO = 1.5
MIN_POINTS_TO_IDENTIFY = 10


def rises(like: Likelihood, n_shape: int) -> bool:
    """F test of the curve against a constant; `n_shape`: parameters of the curve beyond the constant."""
    p, noise = like.problem, like.noise
    s1, sy, syy = (float(value) for value in p.sums[:3])
    level = p.r0 if p.r0 is not None else sy / s1
    constant = syy - 2.0 * level * sy + level**2 * s1
    needed = n_shape * float(fdtri(n_shape, noise.dof, IDENTIFY_LEVEL))
    return constant - like.sse > needed * noise.variance * noise.inflation


def starts_agree(like: Likelihood) -> bool:
    """Whether no other basin of the search fits as well with a ceiling outside what the best one allows."""
    rivals = like.ends.sse <= like.limit(IDENTIFY_LEVEL)
    lo, hi = like.region(IDENTIFY_LEVEL).parameter("A")
    room = 1e-6 + 0.05 * (hi - lo)  # the ends are found to a tolerance
    a = like.ends.a[rivals]
    return bool(((a >= lo - room) & (a <= hi + room)).all())


def has_bent(like: Likelihood) -> bool:
    """Whether the gain is bounded above within MAX_GAIN_RATIO of its lower bound."""
    limit = like.limit(IDENTIFY_LEVEL)
    lo, hi = like.region(IDENTIFY_LEVEL).parameter("A")
    start = float(like.best.r0[0])
    cap = start + MAX_GAIN_RATIO * (lo - start)
    if hi > cap or lo <= start:
        return False
    if hi < like.problem.cap:
        return True
    return not _reaches(like, cap, limit)


def _reaches(like: Likelihood, cap: float, limit: float) -> bool:
    """Whether a ceiling of `cap`, above the bound of 1, still fits the data."""
    relaxed = replace(like.problem, cap=cap)
    best = solve(relaxed, like.grid, also=like.best)
    region = build(relaxed, trace(relaxed, like.grid, best, limit), best, limit)
    return region.parameter("A")[1] >= cap - 1e-9
