"""Profile-likelihood intervals and bands.

The interval of any quantity is the range it takes over the likelihood region
{sum of squares <= minimum + allowance}. The region is sampled in (log B, log C_mid) along its ridge, which may be
a long thin banana. For each sample the region in (R0, A) is an ellipse cut by the box 0 <= R0 <= A <= 1, where the
extremes of a quantity that is linear in R0 and A (A itself, the curve at some compute, the gain between two computes)
have a closed form. So one set of samples serves all parameters and all bands.
"""

from dataclasses import dataclass

import numpy as np

from scaling.curve import Array, share
from scaling.ridge import Ends, climb, find_ends, merge, rise, take
from scaling.solve import (
    Moments,
    Problem,
    Solutions,
    free_optimum,
    masked,
    moments,
    normal_matrix,
    shares,
    solve_linear,
)

NODES = 24  # C_mid values along the ridge
ACROSS = 13  # B values across it, at each

Interval = tuple[float | None, float | None]


@dataclass(frozen=True)
class Region:
    """Samples of the likelihood region {sum of squares <= limit}, the optimum last: arrays [samples]."""

    problem: Problem
    best: Solutions  # the optimum that the allowance is counted from, length 1
    limit: float
    ends: Ends
    lowest_b: float
    highest_b: float
    sample_b: Array
    sample_m: Array
    moments: Moments

    def c_mid(self) -> Interval:
        """Interval of the shifted log C_mid; None at an end where the search box ends first."""
        return (None if self.ends.open_lo else self.ends.lo, None if self.ends.open_hi else self.ends.hi)

    def log_b(self) -> Interval:
        """Interval of log B; None at an end where the search box ends first."""
        lo, hi = self.problem.b_range
        return (
            None if self.lowest_b <= lo + 1e-6 else self.lowest_b,
            None if self.highest_b >= hi - 1e-6 else self.highest_b,
        )

    def extremes(self, of_r0: Array, of_a: Array) -> tuple[Array, Array]:
        """Least and greatest of `of_r0 * R0 + of_a * A` over the region.

        of_r0, of_a: [samples, c], c quantities at once.
        """
        mom = self.moments
        lo = np.full(of_r0.shape[1], np.inf)
        hi = np.full(of_r0.shape[1], -np.inf)
        for r0, a, valid in _corners(self.problem, mom, self.limit):
            if valid.any():
                value = of_r0[valid] * r0[valid, None] + of_a[valid] * a[valid, None]
                lo, hi = np.minimum(lo, value.min(axis=0)), np.maximum(hi, value.max(axis=0))
        if self.problem.r0 is None and self.problem.a is None:
            low, high = _inside_extremes(self.problem, mom, of_r0, of_a, self.limit)
            lo, hi = np.minimum(lo, low), np.maximum(hi, high)
        at_best = of_r0[-1] * self.best.r0[0] + of_a[-1] * self.best.a[0]
        return np.minimum(lo, at_best), np.maximum(hi, at_best)

    def parameter(self, name: str) -> tuple[float, float]:
        """Extremes of R0 or A."""
        one, zero = np.ones((len(self.sample_b), 1)), np.zeros((len(self.sample_b), 1))
        lo, hi = self.extremes(one, zero) if name == "R0" else self.extremes(zero, one)
        return float(lo[0]), float(hi[0])

    def shares(self, u: Array) -> Array:
        """Share of the gain of every sample at shifted log computes u [c]: [samples, c]."""
        return share(self.problem.form, u[None, :] - self.sample_m[:, None], np.exp(self.sample_b)[:, None])


def build(p: Problem, ridge: Solutions, best: Solutions, limit: float) -> Region:
    """Samples of {sum of squares <= limit} around `best`, the optimum of `p`; `ridge` must reach beyond the region."""
    ridge, ends = find_ends(p, ridge, best, limit)
    nodes = _nodes(p, ridge, best, ends, limit)
    lower, upper = _across(p, nodes, limit)
    across = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, ACROSS))  # dense at the rim, where extremes lie
    b = across * (upper - lower)[:, None] + lower[:, None]
    m = np.broadcast_to(nodes.m[:, None], b.shape)
    sample_b, sample_m = np.append(b.ravel(), best.b[0]), np.append(m.ravel(), best.m[0])
    mom = moments(p, shares(p, sample_b, sample_m))
    return Region(p, best, limit, ends, float(lower.min()), float(upper.max()), sample_b, sample_m, mom)


def _nodes(p: Problem, ridge: Solutions, best: Solutions, ends: Ends, limit: float) -> Solutions:
    """Ridge points from end to end, dense at both, where a narrow region is cut by a level line most obliquely."""
    centre = float(best.m[0])
    turn = np.sin(np.linspace(0.0, 0.5 * np.pi, NODES // 2 + 1)[1:])
    m = np.concatenate([centre - (centre - ends.lo) * turn[::-1], centre + (ends.hi - centre) * turn])
    found = merge(climb(p, m, ridge), best)
    return take(found, np.flatnonzero(found.sse <= limit + 1e-3 * (limit - best.sse[0])))


def _across(p: Problem, nodes: Solutions, limit: float) -> tuple[Array, Array]:
    """Ends of the region in log B at each node, by doubling outwards and then false position on the root."""
    k = len(nodes.b)
    centre, m, base = (np.concatenate([v, v]) for v in (nodes.b, nodes.m, nodes.sse))
    side = np.repeat([-1.0, 1.0], k)
    room = np.where(side > 0, p.b_range[1] - centre, centre - p.b_range[0])
    goal = rise(limit, base)

    def excess(step: Array) -> Array:
        mom = moments(p, shares(p, centre + side * step, m))
        return rise(solve_linear(p, mom)[2], base) - goal

    x0, f0 = np.zeros_like(room), -goal
    x1 = np.minimum(_half_width(p, nodes, goal), room)
    f1 = excess(x1)
    for _ in range(12):
        short = (f1 < 0) & (x1 < room)
        if not short.any():
            break
        x0, f0 = np.where(short, x1, x0), np.where(short, f1, f0)
        x1 = np.where(short, np.minimum(2.0 * x1, room), x1)
        f1 = np.where(short, excess(x1), f1)
    open_end = (f1 < 0) & (x1 >= room)
    for _ in range(3):  # `excess` is nearly linear, so false position converges at once
        x = _straight(x0, f0, x1, f1)
        f = excess(x)
        inside = f <= 0
        x0, f0 = np.where(inside, x, x0), np.where(inside, f, f0)
        x1, f1 = np.where(inside, x1, x), np.where(inside, f1, f)
    step = np.where(open_end, room, _straight(x0, f0, x1, f1))
    return centre[:k] - step[:k], centre[k:] + step[k:]


def _straight(x0: Array, f0: Array, x1: Array, f1: Array) -> Array:
    """Where the straight line through two points is zero, kept between them."""
    return x0 + np.clip(-f0 / np.where(f1 > f0, f1 - f0, 1.0), 0.0, 1.0) * (x1 - x0)


def _half_width(p: Problem, nodes: Solutions, goal: Array) -> Array:
    """First guess of the half width in log B at each node, from the curvature there; for both sides [2k]."""
    matrix, _, free = normal_matrix(p, nodes)
    free[:, 3], free[:, 2] = False, True
    full = masked(matrix, free)
    full = full + 1e-13 * np.trace(full, axis1=1, axis2=2)[:, None, None] * np.eye(4)
    variance = np.linalg.inv(full)[:, 2, 2]
    half = np.sqrt(np.where(np.isfinite(variance) & (variance > 0), variance, 1.0))
    return np.clip(np.concatenate([half, half]) * goal, 1e-7, 2.0)


def _corners(p: Problem, mom: Moments, limit: float) -> list[tuple[Array, Array, np.ndarray]]:
    """Ends of the pieces of the box's edges that lie in the region: (R0, A, valid) for every sample."""
    size = len(mom.gg)
    if p.r0 is not None and p.a is not None:
        fixed = np.full(size, p.r0), np.full(size, p.a)
        return [(*fixed, mom.sse(*fixed) <= limit)]
    if p.r0 is not None:
        lines = [((p.r0, 0.0), (0.0, 1.0), (p.r0, p.cap))]
    elif p.a is not None:
        lines = [((0.0, p.a), (1.0, 0.0), (p.floor, p.a))]
    else:
        box = (p.floor, p.cap)
        lines = [
            ((p.floor, 0.0), (0.0, 1.0), box),
            ((0.0, p.cap), (1.0, 0.0), box),
            ((0.0, 0.0), (1.0, 1.0), box),
        ]
    return [corner for start, along, ends in lines for corner in _line(mom, limit, start, along, ends)]


def _line(
    mom: Moments,
    limit: float,
    start: tuple[float, float],
    along: tuple[float, float],
    ends: tuple[float, float],
) -> list[tuple[Array, Array, np.ndarray]]:
    """The stretch of the line (R0, A) = start + t * along, t in ends, where the sum of squares is within `limit`."""
    (s0, s1), (d0, d1) = start, along
    square = d0 * d0 * mom.hh + 2 * d0 * d1 * mom.hg + d1 * d1 * mom.gg
    linear = d0 * (mom.hy - s0 * mom.hh - s1 * mom.hg) + d1 * (mom.gy - s0 * mom.hg - s1 * mom.gg)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.where(square > 0, linear / square, 0.0)
        room = limit - mom.sse(s0 + d0 * t, s1 + d1 * t)
        reach = np.where(square > 0, np.sqrt(np.maximum(room, 0.0) / square), np.inf)
    lo, hi = np.maximum(t - reach, ends[0]), np.minimum(t + reach, ends[1])
    valid = (room >= 0) & (lo <= hi)
    return [(s0 + d0 * x, s1 + d1 * x, valid) for x in (lo, hi)]


def _inside_extremes(
    p: Problem, mom: Moments, of_r0: Array, of_a: Array, limit: float
) -> tuple[Array, Array]:
    """Extremes on the part of the ellipses' rims that lies inside the box."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r0, a = free_optimum(mom)
        room = limit - mom.sse(r0, a)
        keep = np.flatnonzero(room >= 0)
        r0, a, room = r0[keep, None], a[keep, None], room[keep, None]
        hh, hg, gg = (v[keep, None] for v in (mom.hh, mom.hg, mom.gg))
        f, g = of_r0[keep], of_a[keep]
        det = hh * gg - hg**2
        x, y = (gg * f - hg * g) / det, (hh * g - hg * f) / det  # inverse of the moments times the quantity
        norm = np.sqrt(np.maximum(f * x + g * y, 1e-300))
        scale = np.sqrt(room) / norm
        ends = []
        for side in (-1.0, 1.0):
            end_r0, end_a = r0 + side * scale * x, a + side * scale * y
            valid = (end_r0 >= p.floor) & (end_a <= p.cap) & (end_a >= end_r0)
            value = f * end_r0 + g * end_a
            missing = np.inf if side < 0 else -np.inf
            ends.append(np.where(valid, value, missing))
    if not len(keep):
        return np.full(f.shape[1], np.inf), np.full(f.shape[1], -np.inf)
    return ends[0].min(axis=0), ends[1].max(axis=0)
