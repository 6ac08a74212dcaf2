"""Profile-likelihood intervals and bands.

The interval of any quantity is the range it takes over the likelihood region {sum of squares <= minimum + allowance}.
The region is sampled in (log B, log C_mid) along its ridge, which may be a long thin banana; for each sample the
region in (R0, A) is an ellipse cut by the box 0 <= R0 <= A <= 1, where the extremes of a quantity that is linear in R0 and A
(A itself, the curve at some compute, the gain between two computes) have a closed form. So one set of samples serves
all parameters, all bands and all levels up to the one that it was made for.
"""

import math
from dataclasses import dataclass

import numpy as np

from scaling.curve import Array, share
from scaling.solve import (
    Moments,
    Points,
    Problem,
    Scan,
    free_optimum,
    masked,
    moments,
    normal_matrix,
    refine,
    shares,
    solve_linear,
)

NODES = 33  # C_mid values along the ridge
ACROSS = 11  # B values across it, at each
_FAR = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 9.0, 17.0, 40.0])  # looks for the ends, in Wald half widths

Interval = tuple[float | None, float | None]


@dataclass(frozen=True)
class Region:
    """Samples of the likelihood region. Nodes: arrays [k]; samples: arrays [k, ACROSS] ordered by B, and moments of all
    samples and of the optimum [k * ACROSS + 1]."""

    problem: Problem
    best: Points  # the optimum that the allowance is counted from, length 1
    limit: float  # largest sum of squares that the samples cover
    node_m: Array
    node_b: Array
    node_sse: Array
    b: Array
    sse: Array
    sample_b: Array
    sample_m: Array
    moments: Moments

    def c_mid(self, limit: float) -> Interval:
        """Interval of the shifted log C_mid; None at an end where the search box ends first."""
        rise = _rise(self.node_sse, self.best.sse[0])
        return (
            _crossing(self.node_m, rise, _root(limit, self.best.sse[0]), self.best.m[0], -1),
            _crossing(self.node_m, rise, _root(limit, self.best.sse[0]), self.best.m[0], +1),
        )

    def log_b(self, limit: float) -> Interval:
        """Interval of log B; None at an end where the search box ends first."""
        ends: list[float | None] = []
        for side, bound in ((-1, self.problem.b_range[0]), (+1, self.problem.b_range[1])):
            found = [float(self.best.b[0])]
            for k in np.flatnonzero(self.node_sse <= limit):
                rise = _rise(self.sse[k], self.node_sse[k])
                end = _crossing(self.b[k], rise, _root(limit, self.node_sse[k]), self.node_b[k], side)
                found.append(float(self.b[k][0 if side < 0 else -1]) if end is None else end)
            end = max(found) if side > 0 else min(found)
            ends.append(None if abs(end - bound) < 1e-6 else end)
        return ends[0], ends[1]

    def extremes(self, of_r0: Array, of_a: Array, limit: Array) -> tuple[Array, Array]:
        """Least and greatest of `of_r0 * R0 + of_a * A` over the region up to each `limit`.

        of_r0, of_a: [samples, c] (c quantities at once); limit: scalar.
        """
        mom = self.moments
        lo = np.full(of_r0.shape[1], np.inf)
        hi = np.full(of_r0.shape[1], -np.inf)
        for r0, a, valid in _corners(self.problem, mom, float(limit)):
            if valid.any():
                value = of_r0[valid] * r0[valid, None] + of_a[valid] * a[valid, None]
                lo, hi = np.minimum(lo, value.min(axis=0)), np.maximum(hi, value.max(axis=0))
        if self.problem.r0 is None and self.problem.a is None:
            low, high = _inside_extremes(self.problem, mom, of_r0, of_a, float(limit))
            lo, hi = np.minimum(lo, low), np.maximum(hi, high)
        at_best = of_r0[-1] * self.best.r0[0] + of_a[-1] * self.best.a[0]
        return np.minimum(lo, at_best), np.maximum(hi, at_best)

    def parameter(self, name: str, limit: float) -> tuple[float, float]:
        """Extremes of R0 or A."""
        one, zero = np.ones((len(self.sample_b), 1)), np.zeros((len(self.sample_b), 1))
        lo, hi = self.extremes(one, zero, limit) if name == "R0" else self.extremes(zero, one, limit)
        return float(lo[0]), float(hi[0])

    def shares(self, u: Array) -> Array:
        """Share of the gain of every sample at shifted log computes u [c]: [samples, c]."""
        return share(self.problem.form, u[None, :] - self.sample_m[:, None], np.exp(self.sample_b)[:, None])


def build(p: Problem, grid: Scan, best: Points, limit: float) -> Region:
    """Samples of {sum of squares <= limit} around `best`, the optimum of `p`."""
    nodes = _nodes(p, grid, best, limit)
    inside = nodes.sse <= limit
    k = np.flatnonzero(inside)
    lower, upper = _across(p, nodes, k, limit)
    b = np.linspace(0.0, 1.0, ACROSS) * (upper - lower)[:, None] + lower[:, None]
    m = np.broadcast_to(nodes.m[k][:, None], b.shape)
    sample_b = np.append(b.ravel(), best.b[0])
    sample_m = np.append(m.ravel(), best.m[0])
    mom = moments(p, shares(p, sample_b, sample_m))
    sse = solve_linear(p, mom)[2][:-1].reshape(b.shape)
    # Nodes outside are kept for the crossing of C_mid only; their rows across are collapsed.
    full_b = np.repeat(nodes.b[:, None], ACROSS, axis=1)
    full_sse = np.repeat(nodes.sse[:, None], ACROSS, axis=1)
    full_b[k], full_sse[k] = b, sse
    return Region(p, best, limit, nodes.m, nodes.b, nodes.sse, full_b, full_sse, sample_b, sample_m, mom)


def _nodes(p: Problem, grid: Scan, best: Points, limit: float) -> Points:
    """The ridge: best B for each of NODES values of C_mid that span the region, its ends included."""
    slope, half = _ridge(p, best, limit)
    reach = np.concatenate([-_FAR[::-1], _FAR]) * half + best.m[0]
    grid_sse = solve_linear(p, grid.moments)[2]
    inside = grid.m[(grid_sse <= limit).any(axis=0)]
    probe = np.unique(np.clip(np.concatenate([reach, inside[:1], inside[-1:]]), *p.m_range))
    found = _along(p, grid, grid_sse, best, slope, probe)
    for _ in range(2):
        brackets = [_bracket(p, best, found, limit, side) for side in (-1, +1)]
        between = np.concatenate([np.linspace(inner, outer, 6)[1:-1] for inner, outer in brackets])
        found = _merge(found, _along(p, grid, grid_sse, best, slope, between))
    lo, hi = (_bracket(p, best, found, limit, side)[1] for side in (-1, +1))
    centre = float(best.m[0])
    below = centre + (lo - centre) * np.linspace(1.0, 0.0, NODES // 2 + 1)[:-1]
    above = centre + (hi - centre) * np.linspace(0.0, 1.0, NODES // 2 + 1)[1:]
    nodes = np.unique(np.concatenate([below, above]))
    ridge = _along(p, grid, grid_sse, best, slope, nodes)
    return _merge(ridge, best)


def _merge(one: Points, other: Points) -> Points:
    """Both sets together, ordered by C_mid."""
    columns = [np.append(getattr(one, k), getattr(other, k)) for k in ("b", "m", "r0", "a", "sse")]
    order = np.argsort(columns[1], kind="stable")
    return Points(*(c[order] for c in columns))


def _ridge(p: Problem, best: Points, limit: float) -> tuple[float, float]:
    """(d log B / d log C_mid along the ridge, Wald half width of log C_mid), both from the normal matrix."""
    matrix, _, free = normal_matrix(p, best)
    free = free.copy()
    full = masked(matrix, free)[0]
    span = p.m_range[1] - p.m_range[0]
    try:
        inverse = np.linalg.inv(full + 1e-13 * np.trace(full) * np.eye(4))
    except np.linalg.LinAlgError:
        return 0.0, 0.1 * span
    if not free[0, 3] or not inverse[3, 3] > 0:
        return 0.0, 0.1 * span
    half = math.sqrt(max(limit - float(best.sse[0]), 0.0) * inverse[3, 3])
    return float(inverse[2, 3] / inverse[3, 3]), float(np.clip(half, 1e-9 * span, 0.25 * span))


def _along(p: Problem, grid: Scan, grid_sse: Array, best: Points, slope: float, m: Array) -> Points:
    """Best B at each fixed m: the best of three starts, refined."""
    column = np.abs(grid.m[None, :] - m[:, None]).argmin(axis=1)
    starts = np.stack(
        [
            np.full(len(m), best.b[0]),
            best.b[0] + np.clip(slope * (m - best.m[0]), -3.0, 3.0),
            grid.b[grid_sse[:, column].argmin(axis=0)],
        ]
    )
    starts = np.clip(starts, *p.b_range)
    sse = solve_linear(p, moments(p, shares(p, starts, np.broadcast_to(m, starts.shape))))[2]
    b = np.take_along_axis(starts, sse.argmin(axis=0)[None], axis=0)[0]
    return refine(p, b, m, move=(True, False), tolerance=1e-5, max_iterations=25)


def _bracket(p: Problem, best: Points, probe: Points, limit: float, side: int) -> tuple[float, float]:
    """(last C_mid inside, first outside) on one side; the bound of the search where nothing lies outside."""
    centre = float(best.m[0])
    outward = np.flatnonzero(side * (probe.m - centre) > 0)[::side]
    m, inside = probe.m[outward], np.flatnonzero(probe.sse[outward] <= limit)
    last = int(inside[-1]) if len(inside) else -1
    bound = p.m_range[0] if side < 0 else p.m_range[1]
    return (centre if last < 0 else float(m[last])), (bound if last + 1 >= len(m) else float(m[last + 1]))


def _across(p: Problem, nodes: Points, k: Array, limit: float) -> tuple[Array, Array]:
    """Ends of the region in log B at the nodes k, by doubling outwards and then false position on the root."""
    centre = np.concatenate([nodes.b[k], nodes.b[k]])
    m = np.concatenate([nodes.m[k], nodes.m[k]])
    base = np.concatenate([nodes.sse[k], nodes.sse[k]])
    side = np.repeat([-1.0, 1.0], len(k))
    room = np.where(side > 0, p.b_range[1] - centre, centre - p.b_range[0])
    goal = _root(limit, base)

    def excess(step: Array) -> Array:
        mom = moments(p, shares(p, centre + side * step, m))
        return _rise(solve_linear(p, mom)[2], base) - goal

    x0, f0 = np.zeros_like(room), -goal
    x1 = np.minimum(_half_width(p, nodes, k, goal), room)
    f1 = excess(x1)
    for _ in range(12):
        short = (f1 < 0) & (x1 < room)
        if not short.any():
            break
        x0, f0 = np.where(short, x1, x0), np.where(short, f1, f0)
        x1 = np.where(short, np.minimum(2.0 * x1, room), x1)
        f1 = np.where(short, excess(x1), f1)
    open_end = f1 <= 0
    for _ in range(4):  # `excess` is nearly linear, so false position converges at once
        x = x0 - f0 * (x1 - x0) / np.where(f1 > f0, f1 - f0, 1.0)
        f = excess(x)
        inside = f <= 0
        x0, f0 = np.where(inside, x, x0), np.where(inside, f, f0)
        x1, f1 = np.where(inside, x1, x), np.where(inside, f1, f)
    step = np.where(open_end, room, x0)
    return centre[: len(k)] - step[: len(k)], centre[len(k) :] + step[len(k) :]


def _half_width(p: Problem, nodes: Points, k: Array, goal: Array) -> Array:
    """First guess of the half width in log B at each node, from the curvature there; for both sides [2k]."""
    at = Points(nodes.b[k], nodes.m[k], nodes.r0[k], nodes.a[k], nodes.sse[k])
    matrix, _, free = normal_matrix(p, at)
    free[:, 3], free[:, 2] = False, True
    full = masked(matrix, free)
    full = full + 1e-13 * np.trace(full, axis1=1, axis2=2)[:, None, None] * np.eye(4)
    variance = np.linalg.inv(full)[:, 2, 2]
    half = np.sqrt(np.where(np.isfinite(variance) & (variance > 0), variance, 1.0))
    return np.clip(np.concatenate([half, half]) * goal, 1e-7, 2.0)


def _rise(sse: Array | float, base: Array | float) -> Array:
    """Square root of the rise: nearly linear in a parameter, so that interpolation is accurate."""
    return np.sqrt(np.maximum(np.asarray(sse) - base, 0.0))


def _root(limit: float, base: Array | float) -> Array:
    return np.sqrt(np.maximum(limit - np.asarray(base), 0.0))


def _crossing(x: Array, rise: Array, goal: float, centre: float, side: int) -> float | None:
    """Outermost x on one side of `centre` where `rise` passes `goal`; None if it is still below at the end."""
    outward = np.flatnonzero(side * (x - centre) >= 0)[::side]
    xs, rises = x[outward], rise[outward]
    inside = np.flatnonzero(rises <= goal)
    last = int(inside[-1]) if len(inside) else 0
    if last + 1 >= len(xs):
        return None
    width = rises[last + 1] - rises[last]
    way = (goal - rises[last]) / width if width > 0 else 1.0
    return float(xs[last] + min(max(way, 0.0), 1.0) * (xs[last + 1] - xs[last]))


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
