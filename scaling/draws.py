"""Curves drawn from what the data allow: for questions that are not about one parameter of one fit.

The likelihood is that of the intervals: with s2 = variance * inflation of the noise, dof its degrees of freedom and p
free parameters, a curve whose sum of squares lies `rise` above the least has the weight
(1 + rise / (dof * s2)) ** (-(dof + p) / 2): Student's t where the curve is linear in its parameters.

The prior is flat in R0 and A over floor <= R0 <= A <= cap (0 and 1 for pass rates), and flat in log B and log C_mid
over the box of the search (B from 0.02 up to steps steeper than the points can show, C_mid from a thousandth of the
first compute to a thousand times the last). On a curve that has bent it does not matter. On one that has not, A is
only what lies between what was reached and the cap, and how likely each of those values is, is the prior's word and not
the data's.

Method: importance sampling. (log B, log C_mid) from a wide likelihood region, A given these from its truncated Student
t, R0 given all three from its own; each proposal is weighted by what was truncated; n are kept in
proportion to their weights.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from scaling import curve
from scaling.curve import NAMES, Array
from scaling.models import Fit, Likelihood
from scaling.solve import Moments, Problem, moments, shares

LEVEL = 0.9999  # of the region that is searched
_PROPOSALS = 10  # for every draw, and at least:
_MIN_PROPOSALS = 20_000
MIN_EFFECTIVE = 200  # fewer than this, and four times as many are proposed, up to twice
_MORE_ROUNDS = 2
_CHUNK = 2_000_000  # shares held in memory at once
_PAD = 0.15  # of the width across the ridge, on each side: it is interpolated between nodes
_TINY = 1e-12
_MAX_DOF = 1e5  # beyond it Student's t is the normal to every digit that matters


@dataclass(frozen=True)
class Draws:
    """n curves, equally likely: arrays [n] in the units of the fit, in random order. `effective`: how many independent
    proposals they stand for; a quantile is no more accurate than that many draws allow."""

    R0: Array
    A: Array
    B: Array
    C_mid: Array
    form: str
    effective: float

    def predict(self, compute: ArrayLike) -> Array:
        """Rewards [n, c] at compute [c] (>= 0; infinity is the ceiling)."""
        with np.errstate(divide="ignore"):
            at = np.log(np.atleast_1d(np.asarray(compute, dtype=float)))
        g = curve.share(self.form, at[None, :] - np.log(self.C_mid)[:, None], self.B[:, None])
        return self.R0[:, None] * (1.0 - g) + self.A[:, None] * g

    def compute_for(self, target: ArrayLike) -> Array:
        """Compute [n] at which each curve reaches `target` (a number, or one for each): 0 at or below R0, inf at or
        above its ceiling."""
        goal = np.asarray(target, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            s = (goal - self.R0) / (self.A - self.R0)
            found = self.C_mid * np.exp(curve.log_ratio_at(self.form, s, self.B))
        return np.where(
            (goal <= self.R0) | (s <= 0), 0.0, np.where((goal >= self.A) | (s >= 1), np.inf, found)
        )


def interval(values: Array, level: float) -> tuple[Array, Array]:
    """Equal-tailed interval of draws [n, ...] along the first axis; infinities count as great values."""
    tail = 0.5 * (1.0 - level)
    lo, hi = np.quantile(values, [tail, 1.0 - tail], axis=0, method="inverted_cdf")
    return lo, hi


def chance(probability: float) -> str:
    """A share of draws in words: two digits, and never a certainty that no number of draws can show."""
    if probability < 0.01:
        return "below 0.01"
    return "above 0.99" if probability > 0.99 else f"{probability:.2f}"


def draws(fit: Fit, n: int, rng: np.random.Generator) -> Draws:
    """n curves from the likelihood of `fit` with the flat prior of this module; the same for the same `rng`.

    A ceiling that is not identified takes part, spread up to the cap. A fit by the paper's method is drawn from the
    likelihood of its points, whose best curve is not the cell of the grid. Raises ValueError for a failed fit.
    """
    like = fit.likelihood
    if fit.params is None or like is None:
        raise ValueError(f"the fit failed ({fit.message}), there is nothing to draw from")
    if n < 1:
        raise ValueError("at least one draw is needed")
    proposals = max(_MIN_PROPOSALS, _PROPOSALS * n)
    for _ in range(1 + _MORE_ROUNDS):
        r0, a, b, m, log_weight = _propose(like, proposals, rng)
        weight = np.exp(log_weight - log_weight.max())
        effective = float(weight.sum() ** 2 / (weight**2).sum())
        if effective >= MIN_EFFECTIVE:
            break
        proposals *= 4
    keep = _resample(weight, n, rng)
    columns = (r0[keep] + like.shift, a[keep] + like.shift, np.exp(b[keep]), np.exp(m[keep] + like.offset))
    return Draws(**dict(zip(NAMES, columns, strict=True)), form=fit.form, effective=effective)


def _propose(like: Likelihood, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array, Array]:
    """(R0, A, log B, log C_mid, log weight) of n proposals, in the problem's shifted units."""
    p = like.problem
    b, m, log_width = _shapes(like, n, rng)
    uniform = rng.random((2, n))
    size = max(1, _CHUNK // len(p.u))
    parts = [
        _linear(like, b[k : k + size], m[k : k + size], uniform[:, k : k + size]) for k in range(0, n, size)
    ]
    r0, a, log_weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return r0, a, b, m, log_weight + log_width


def _shapes(like: Likelihood, n: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """(log B, log C_mid, log of 1 / density): a jittered even spread over the region of LEVEL, padded across."""
    p, region = like.problem, like.region(LEVEL)
    nodes, at = np.unique(region.sample_m[:-1], return_inverse=True)
    lower, upper = np.full(len(nodes), np.inf), np.full(len(nodes), -np.inf)
    np.minimum.at(lower, at, region.sample_b[:-1])
    np.maximum.at(upper, at, region.sample_b[:-1])
    pad = _PAD * (upper - lower) + 1e-9
    lower, upper = np.maximum(lower - pad, p.b_range[0]), np.minimum(upper + pad, p.b_range[1])
    even = (np.arange(n) + rng.random(n)) / n
    m = nodes[0] + even * (nodes[-1] - nodes[0])
    lo, hi = np.interp(m, nodes, lower), np.interp(m, nodes, upper)
    golden = 0.6180339887498949
    across = (np.arange(n) * golden + rng.random()) % 1.0
    return lo + across * (hi - lo), m, np.log(hi - lo)


def _linear(like: Likelihood, b: Array, m: Array, uniform: Array) -> tuple[Array, Array, Array]:
    """(R0, A, log weight) given shapes [k], from uniform numbers [2, k]: A first, then R0 given A.

    The sum of squares is that of the free optimum, plus curvature * (A - A^)**2, plus hh * (R0 - R0^(A))**2; so A is a
    Student t of dof + 2 degrees of freedom and R0 given A one of dof + 3, each with the least sum of squares in
    its scale (dof + 2 for R0 where A is fixed).
    """
    p, noise = like.problem, like.noise
    mom = moments(p, shares(p, b, m))
    scale = noise.dof * noise.variance * noise.inflation
    hh = np.maximum(mom.hh, _TINY * p.sums[0])

    def rest(a: Array) -> tuple[Array, Array]:
        """(best R0, 1 + rise / scale) at A."""
        r0 = (mom.hy - a * mom.hg) / hh if p.r0 is None else np.full_like(b, p.r0)
        return r0, np.maximum(1.0 + (mom.sse(r0, a) - like.sse) / scale, _TINY)

    dof = noise.dof + 2.0
    a, curvature = _best_a(p, mom, hh)
    r0, base = rest(a)
    log_weight = -0.5 * dof * np.log(base)
    if p.a is None:
        low = np.full_like(b, p.floor if p.r0 is None else p.r0)
        a, log_mass = _truncated(a, np.sqrt(base * scale / (curvature * dof)), dof, low, p.cap, uniform[0])
        log_weight += log_mass - 0.5 * np.log(curvature)
        dof += 1.0
    if p.r0 is None:
        r0, base = rest(a)
        low = np.full_like(b, p.floor)
        r0, log_mass = _truncated(r0, np.sqrt(base * scale / (hh * dof)), dof, low, a, uniform[1])
        log_weight += log_mass - 0.5 * np.log(hh)
    return r0, a, log_weight


def _best_a(p: Problem, mom: Moments, hh: Array) -> tuple[Array, Array]:
    """(A without any box, half the curvature of the sum of squares in A) once R0 is at its best."""
    if p.a is not None:
        return np.full_like(mom.gg, p.a), np.ones_like(mom.gg)
    if p.r0 is None:
        slope, curvature = mom.gy - mom.hg * mom.hy / hh, mom.gg - mom.hg**2 / hh
    else:
        slope, curvature = mom.gy - p.r0 * mom.hg, mom.gg
    curvature = np.maximum(curvature, _TINY * p.sums[0])
    return slope / curvature, curvature


def _truncated(
    centre: Array, spread: Array, dof: float, low: Array, high: Array | float, uniform: Array
) -> tuple[Array, Array]:
    """(values, log of the share inside) of a Student t cut to [low, high], from uniform numbers, all [k]."""
    z_low, z_high = (low - centre) / spread, (high - centre) / spread
    flip = z_low > 0  # the lower tail keeps its digits
    z_low, z_high = np.where(flip, -z_high, z_low), np.where(flip, -z_low, z_high)
    dof = min(dof, _MAX_DOF)
    below, upto = stdtr(dof, z_low), stdtr(dof, z_high)
    z = stdtrit(dof, below + uniform * (upto - below))
    value = centre + spread * np.where(flip, -z, z)
    with np.errstate(divide="ignore"):
        return np.clip(np.where(np.isfinite(value), value, low), low, high), np.log(upto - below)


def _resample(weight: Array, n: int, rng: np.random.Generator) -> np.ndarray:
    """n indices in proportion to `weight` (systematic resampling), in random order."""
    steps = (np.arange(n) + rng.random()) / n * weight.sum()
    return rng.permutation(np.minimum(np.searchsorted(np.cumsum(weight), steps), len(weight) - 1))
