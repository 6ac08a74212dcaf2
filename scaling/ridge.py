"""The ridge of the likelihood: for each C_mid the best B (and R0 and A), and where its sum of squares passes a limit.

Where the data have not bent, the ridge is long and curved; it is followed outwards from the optimum until the limit
is passed or the search box ends.
"""

import math
from dataclasses import dataclass

import numpy as np

from scaling.curve import Array
from scaling.solve import (
    Problem,
    Scan,
    Solutions,
    masked,
    moments,
    normal_matrix,
    refine,
    shares,
    solve_linear,
)

_FIRST = np.array([0.35, 0.7, 1.0, 1.4, 2.0])  # first probes, in Wald half widths
_STRIDE = 2.0
_MAX_STRIDES = 12
_MAX_ROUNDS = 6


@dataclass(frozen=True)
class Ends:
    """Where the ridge passes the limit, in shifted log C_mid; `open`: the search box ends first."""

    lo: float
    hi: float
    open_lo: bool
    open_hi: bool


def rise(sse: Array | float, base: Array | float) -> Array:
    """Square root of the rise: nearly linear in a parameter, so that interpolation is accurate."""
    return np.sqrt(np.maximum(np.asarray(sse) - base, 0.0))


def merge(one: Solutions, other: Solutions) -> Solutions:
    """Both sets together, ordered by C_mid."""
    columns = [np.append(getattr(one, k), getattr(other, k)) for k in ("b", "m", "r0", "a", "sse")]
    order = np.argsort(columns[1], kind="stable")
    return Solutions(*(c[order] for c in columns))


def take(points: Solutions, index: np.ndarray) -> Solutions:
    """Some of the points."""
    return Solutions(*(getattr(points, k)[index] for k in ("b", "m", "r0", "a", "sse")))


def trace(p: Problem, grid: Scan, best: Solutions, limit: float) -> Solutions:
    """Ridge points from the optimum outwards until each side has passed `limit` or reached the search box."""
    slope, half = _wald(p, best, limit)
    centre = float(best.m[0])
    grid_sse = solve_linear(p, grid.moments)[2]
    inside = grid.m[(grid_sse <= limit).any(axis=0)]  # another basin, or a long arm, may lie further out
    probe = np.concatenate([centre - half * _FIRST, centre + half * _FIRST, inside[:1], inside[-1:]])
    ridge = merge(best, _along(p, grid, grid_sse, best, slope, np.clip(np.unique(probe), *p.m_range)))
    for k in range(1, _MAX_STRIDES + 1):
        reach = 2.0 * half * _STRIDE**k
        ahead = [
            float(np.clip(ridge.m[end] + side * reach, *p.m_range))
            for side, end in ((-1, 0), (+1, -1))
            if ridge.sse[end] <= limit and p.m_range[0] < ridge.m[end] < p.m_range[1]
        ]
        if not ahead:
            break
        ridge = merge(ridge, _along(p, grid, grid_sse, best, slope, np.array(ahead)))
    return ridge


def find_ends(p: Problem, ridge: Solutions, best: Solutions, limit: float) -> tuple[Solutions, Ends]:
    """The two ends at `limit`, with the ridge points that were added to pin them."""
    goal = float(rise(limit, best.sse[0]))
    for _ in range(_MAX_ROUNDS):
        wanted: list[float] = []
        for side in (-1, +1):
            inner, outer = _bracket(ridge, best, goal, side)
            if outer is not None and not _tight(ridge, best, goal, inner, outer):
                wanted += _between(ridge, best, goal, inner, outer)
        if not wanted:
            break
        ridge = merge(ridge, climb(p, np.array(wanted), ridge))
    lo, hi = (_crossing(ridge, best, goal, side) for side in (-1, +1))
    ends = Ends(
        p.m_range[0] if lo is None else lo, p.m_range[1] if hi is None else hi, lo is None, hi is None
    )
    return ridge, ends


def climb(p: Problem, m: Array, ridge: Solutions) -> Solutions:
    """Ridge points at each m, started from their neighbours on a ridge already known."""
    return refine(p, np.interp(m, ridge.m, ridge.b), m, move=(True, False), tolerance=1e-4, max_iterations=12)


def _wald(p: Problem, best: Solutions, limit: float) -> tuple[float, float]:
    """(d log B / d log C_mid along the ridge, half width of log C_mid), both from the normal matrix."""
    matrix, _, free = normal_matrix(p, best)
    full = masked(matrix, free)[0]
    span = p.m_range[1] - p.m_range[0]
    inverse = np.linalg.inv(full + 1e-13 * np.trace(full) * np.eye(4))
    if not free[0, 3] or not inverse[3, 3] > 0:
        return 0.0, 0.02 * span
    half = math.sqrt(max(limit - float(best.sse[0]), 0.0) * inverse[3, 3])
    return float(inverse[2, 3] / inverse[3, 3]), float(np.clip(half, 1e-9 * span, 0.25 * span))


def _along(p: Problem, grid: Scan, grid_sse: Array, best: Solutions, slope: float, m: Array) -> Solutions:
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
    return refine(p, b, m, move=(True, False), tolerance=1e-4, max_iterations=25)


def _outward(ridge: Solutions, best: Solutions, side: int) -> tuple[Array, Array]:
    """(m, rise) from the optimum outwards on one side, the optimum first."""
    at = np.flatnonzero(side * (ridge.m - best.m[0]) > 0)[::side]
    m = np.concatenate([best.m, ridge.m[at]])
    return m, np.concatenate([[0.0], rise(ridge.sse[at], best.sse[0])])


def _bracket(ridge: Solutions, best: Solutions, goal: float, side: int) -> tuple[float, float | None]:
    """(last m inside, first outside) on one side; None where nothing lies outside."""
    m, height = _outward(ridge, best, side)
    last = int(np.flatnonzero(height <= goal)[-1])
    return float(m[last]), float(m[last + 1]) if last + 1 < len(m) else None


def _height(ridge: Solutions, best: Solutions, m: float) -> float:
    if m == best.m[0]:
        return 0.0
    return float(rise(ridge.sse[np.searchsorted(ridge.m, m)], best.sse[0]))


def _tight(ridge: Solutions, best: Solutions, goal: float, inner: float, outer: float) -> bool:
    """Whether the bracket is narrow enough for straight interpolation."""
    low, high = _height(ridge, best, inner), _height(ridge, best, outer)
    return high - low <= 0.1 * goal or abs(outer - inner) < 1e-9


def _between(ridge: Solutions, best: Solutions, goal: float, inner: float, outer: float) -> list[float]:
    """Three m in the bracket: the interpolated crossing, and one on either side of it."""
    low, high = _height(ridge, best, inner), _height(ridge, best, outer)
    way = min(max((goal - low) / (high - low), 0.05), 0.95)
    return [
        inner + x * (outer - inner) for x in (way - 0.25 * min(way, 1 - way), way, way + 0.25 * (1 - way))
    ]


def _crossing(ridge: Solutions, best: Solutions, goal: float, side: int) -> float | None:
    """Outermost m on one side where the ridge passes the goal; None where the search box ends first."""
    inner, outer = _bracket(ridge, best, goal, side)
    if outer is None:
        return None
    low, high = _height(ridge, best, inner), _height(ridge, best, outer)
    way = (goal - low) / (high - low) if high > low else 1.0
    return inner + min(max(way, 0.0), 1.0) * (outer - inner)
