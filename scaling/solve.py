"""Least squares by variable projection: given (log B, log C_mid), R0 and A are linear and solved exactly.

So the search is over two numbers only. A grid over both finds every basin, a batched Gauss-Newton iteration with
damping refines many starts at once. K starts are refined side by side: arrays [K], designs [K, n]. They may belong to
one curve (data [n]) or to K curves (data [K, n], padded with points of weight 0; see `scaling.many`).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scaling.curve import Array, Bools, share, share_slopes


@dataclass(frozen=True)
class Problem:
    """Weighted least squares for one curve, in shifted units: log compute minus its centre, reward minus its mean.

    floor <= R0 <= A <= cap; `r0` or `a` fixes that one. `start_y` [s] are direct observations of R0 of weights
    `start_w` [s]. `b_range`, `m_range`: search box of log B and of log C_mid (shifted like u).
    """

    form: str
    u: Array
    y: Array
    w: Array
    start_y: Array
    start_w: Array
    floor: float
    cap: float
    r0: float | None
    a: float | None
    b_range: tuple[float, float]
    m_range: tuple[float, float]

    @cached_property
    def sums(self) -> tuple[Array, Array, Array, Array]:
        """(sum w, sum w y, sum w y^2, weight of the start) over curve points and start observations."""
        wy, wy0 = self.w * self.y, self.start_w * self.start_y
        w0 = self.start_w.sum(axis=-1)
        sy, syy = (
            wy.sum(axis=-1) + wy0.sum(axis=-1),
            (wy * self.y).sum(axis=-1) + (wy0 * self.start_y).sum(axis=-1),
        )
        return self.w.sum(axis=-1) + w0, sy, syy, w0


@dataclass(frozen=True)
class Moments:
    """Second moments of the two linear columns, h = 1 - g (for R0) and g (for A), and the reward. Arrays [K]."""

    hh: Array
    hg: Array
    gg: Array
    hy: Array
    gy: Array
    yy: Array

    def sse(self, r0: Array | float, a: Array | float) -> Array:
        """Weighted sum of squared residuals at R0 and A (never below zero by rounding)."""
        q = r0 * r0 * self.hh + 2.0 * r0 * a * self.hg + a * a * self.gg
        return np.maximum(self.yy - 2.0 * (r0 * self.hy + a * self.gy) + q, 0.0)


def moments(p: Problem, g: Array) -> Moments:
    """Moments of shares g [..., n]."""
    _, sy, syy, w0 = p.sums
    h = 1.0 - g
    gy = _dot(g, p.w * p.y)
    return Moments(_dot(h * h, p.w) + w0, _dot(h * g, p.w), _dot(g * g, p.w), sy - gy, gy, syy)


def _dot(g: Array, v: Array) -> Array:
    """Sums over the points: g [..., n] times v [n], or row by row with v [K, n]."""
    return g @ v if v.ndim == 1 else (g * v).sum(axis=-1)


def shares(p: Problem, b: Array, m: Array) -> Array:
    """Shares [..., n] of the gain at log B = b and shifted log C_mid = m (equal shapes [...])."""
    return share(p.form, p.u - np.asarray(m)[..., None], np.exp(b)[..., None])


def solve_linear(p: Problem, mom: Moments) -> tuple[Array, Array, Array]:
    """(R0, A, sse), the exact optimum in the box floor <= R0 <= A <= cap for each of the given moments."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if p.r0 is not None and p.a is not None:
            r0, a = np.full_like(mom.gg, p.r0), np.full_like(mom.gg, p.a)
        elif p.a is not None:
            a = np.full_like(mom.gg, p.a)
            r0 = _clip((mom.hy - p.a * mom.hg) / mom.hh, p.floor, p.a)
        elif p.r0 is not None:
            r0 = np.full_like(mom.gg, p.r0)
            a = _clip((mom.gy - p.r0 * mom.hg) / mom.gg, p.r0, p.cap)
        else:
            return _solve_both(p, mom)
    return r0, a, mom.sse(r0, a)


def _clip(x: Array, lo: float, hi: float) -> Array:
    return np.clip(np.where(np.isfinite(x), x, lo), lo, hi)


def _solve_both(p: Problem, mom: Moments) -> tuple[Array, Array, Array]:
    """A convex problem over a triangle: the free optimum if it lies inside, else the best of the three edges."""
    r0, a = free_optimum(mom)
    inside = (r0 >= p.floor) & (a <= p.cap) & (a >= r0)
    if inside.all():
        return r0, a, mom.sse(r0, a)
    best_r0, best_a = np.where(inside, r0, 0.0), np.where(inside, a, 0.0)
    best = np.where(inside, mom.sse(best_r0, best_a), np.inf)
    for edge_r0, edge_a in _edges(p, mom):
        sse = mom.sse(edge_r0, edge_a)
        better = sse < best
        best = np.where(better, sse, best)
        best_r0, best_a = np.where(better, edge_r0, best_r0), np.where(better, edge_a, best_a)
    return best_r0, best_a, best


def free_optimum(mom: Moments) -> tuple[Array, Array]:
    """R0 and A without any box; NaN where the two columns cannot be told apart."""
    det = mom.hh * mom.gg - mom.hg**2
    det = np.where(det > 1e-13 * mom.hh * mom.gg, det, np.nan)
    return (mom.hy * mom.gg - mom.gy * mom.hg) / det, (mom.gy * mom.hh - mom.hy * mom.hg) / det


def _edges(p: Problem, mom: Moments) -> list[tuple[Array, Array]]:
    low, cap = np.full_like(mom.gg, p.floor), np.full_like(mom.gg, p.cap)
    flat = _clip((mom.hy + mom.gy) / (mom.hh + 2.0 * mom.hg + mom.gg), p.floor, p.cap)
    return [
        (low, _clip((mom.gy - p.floor * mom.hg) / mom.gg, p.floor, p.cap)),
        (_clip((mom.hy - p.cap * mom.hg) / mom.hh, p.floor, p.cap), cap),
        (flat, flat),
    ]


@dataclass(frozen=True)
class Scan:
    """The grid: log B [nb], log C_mid [nm], and moments of every cell [nb, nm]."""

    b: Array
    m: Array
    moments: Moments


def scan(p: Problem) -> Scan:
    """Moments over a grid that is denser in C_mid where the points are."""
    b = np.linspace(*p.b_range, 28)
    inner = np.concatenate([np.linspace(p.u[0], p.u[-1], 24), np.quantile(p.u, np.linspace(0, 1, 18)[1:-1])])
    below = np.linspace(p.m_range[0], p.u[0], 7)[:-1]
    above = np.linspace(p.u[-1], p.m_range[1], 9)[1:]
    m = np.unique(np.concatenate([below, inner, above]))
    bb, mm = np.meshgrid(b, m, indexing="ij")
    return Scan(b, m, moments(p, shares(p, bb, mm)))


@dataclass(frozen=True)
class Solutions:
    """K candidate solutions, arrays [K]."""

    b: Array
    m: Array
    r0: Array
    a: Array
    sse: Array

    def best(self) -> int:
        return int(np.argmin(self.sse))


def window_rise(p: Problem, at: Solutions) -> Array:
    """[K] What each solution gains from the first to the last point, or from R0 where that was observed."""
    g = shares(p, at.b, at.m)
    first = np.where(p.start_w.any(axis=-1), 0.0, g[:, 0])
    return (at.a - at.r0) * (g[:, -1] - first)


def is_flat(rise: Array, spread: Array | float) -> Bools:
    """Whether a rise over the window is none: less than rounding of the rewards, whose range is `spread`."""
    return rise <= 1e-9 * np.maximum(spread, 1e-12)


def basins(p: Problem, grid: Scan, *, also: Solutions | None = None, starts: int = 8) -> Solutions:
    """Where the lowest local minima of the grid, and `also`, lead to when refined."""
    sse = solve_linear(p, grid.moments)[2]
    padded = np.pad(sse, 1, constant_values=np.inf)
    nb, nm = sse.shape
    lowest = np.ones_like(sse, dtype=bool)
    for i in (0, 1, 2):
        for j in (0, 1, 2):
            lowest &= sse <= padded[i : i + nb, j : j + nm]
    rows, columns = np.nonzero(lowest)
    order = np.argsort(sse[rows, columns], kind="stable")[:starts]
    b, m = grid.b[rows[order]], grid.m[columns[order]]
    if also is not None:
        b, m = np.append(b, also.b), np.append(m, also.m)
    return refine(p, b, m)


def solve(p: Problem, grid: Scan, *, also: Solutions | None = None, starts: int = 8) -> Solutions:
    """The global optimum as Solutions of length 1: every basin of the grid, and `also`, refined; the lowest wins."""
    found = basins(p, grid, also=also, starts=starts)
    k = found.best()
    return Solutions(*(np.atleast_1d(v[k]) for v in (found.b, found.m, found.r0, found.a, found.sse)))


@dataclass
class _State:
    b: Array
    m: Array
    g: Array
    by_b: Array
    by_m: Array
    r0: Array
    a: Array
    sse: Array

    def accept(self, other: "_State", better: Bools) -> None:
        for name, mine in vars(self).items():
            theirs = getattr(other, name)
            mask = better[:, None] if mine.ndim == 2 else better
            setattr(self, name, np.where(mask, theirs, mine))


def _evaluate(p: Problem, b: Array, m: Array) -> _State:
    g, by_b, by_m = share_slopes(p.form, p.u - m[:, None], np.exp(b)[:, None])
    r0, a, _ = solve_linear(p, moments(p, g))
    residual = p.y - r0[:, None] - (a - r0)[:, None] * g  # from residuals: exact data need every digit
    sse = _dot(residual**2, p.w) + (p.start_w * (p.start_y - r0[:, None]) ** 2).sum(axis=-1)
    return _State(b, m, g, by_b, by_m, r0, a, sse)


def refine(
    p: Problem,
    b: Array,
    m: Array,
    *,
    move: tuple[bool, bool] = (True, True),
    tolerance: float = 1e-9,
    max_iterations: int = 80,
) -> Solutions:
    """Damped Gauss-Newton in (log B, log C_mid) from K starts [K]; `move` holds either of the two fixed."""
    state = _evaluate(p, np.clip(b, *p.b_range), np.clip(m, *p.m_range))
    damping = np.full(len(state.b), 1e-3)
    for _ in range(max_iterations):
        step = _gauss_newton_step(p, state, damping, move)
        trial = _evaluate(
            p, np.clip(state.b + step[:, 0], *p.b_range), np.clip(state.m + step[:, 1], *p.m_range)
        )
        moved = np.maximum(np.abs(trial.b - state.b), np.abs(trial.m - state.m))
        better = trial.sse < state.sse
        settled = (moved < tolerance) | (better & (state.sse - trial.sse <= 1e-13 * state.sse))
        state.accept(trial, better)
        damping = np.where(better, damping * 0.2, damping * 8.0)
        if (settled | (damping > 1e9)).all():
            break
        damping = np.clip(damping, 1e-12, 1e12)
    return Solutions(state.b, state.m, state.r0, state.a, state.sse)


def normal_matrix(p: Problem, state: Solutions) -> tuple[Array, Array, Bools]:
    """(J'WJ [K, 4, 4], J'Wr [K, 4], free [K, 4]) by (R0, A, log B, log C_mid) at given points."""
    full = _evaluate(p, state.b, state.m)
    return _normal(p, full)


def design(p: Problem, at: Solutions) -> tuple[Array, Array]:
    """(standardised Jacobian [k + n, free parameters], residuals [k + n]) at one solution; start observations first."""
    _, _, free = normal_matrix(p, at)
    s = _evaluate(p, at.b, at.m)
    gain, g, root_w = s.a - s.r0, s.g[0], np.sqrt(p.w)
    rows = np.stack([1.0 - g, g, gain * s.by_b[0], gain * s.by_m[0]], axis=1) * root_w[:, None]
    start = np.zeros((len(p.start_y), 4))
    start[:, 0] = np.sqrt(p.start_w)
    residuals = np.concatenate([(p.start_y - s.r0[0]) * start[:, 0], (p.y - s.r0[0] - gain[0] * g) * root_w])
    return np.concatenate([start, rows])[:, free[0]], residuals


def _normal(p: Problem, s: _State) -> tuple[Array, Array, Bools]:
    gain = (s.a - s.r0)[:, None]
    j = np.stack([1.0 - s.g, s.g, gain * s.by_b, gain * s.by_m], axis=1)
    residual = p.y - s.r0[:, None] - gain * s.g
    jw = j * (p.w if p.w.ndim == 1 else p.w[:, None, :])
    matrix = jw @ j.transpose(0, 2, 1)
    matrix[:, 0, 0] += p.start_w.sum(axis=-1)
    gradient = (jw @ residual[:, :, None])[:, :, 0]
    gradient[:, 0] += (p.start_w * (p.start_y - s.r0[:, None])).sum(axis=-1)
    free = np.ones((len(s.b), 4), dtype=bool)
    free[:, 0] = (p.r0 is None) & (s.r0 > p.floor)
    free[:, 1] = (p.a is None) & (s.a < p.cap)
    for k, value, ends in ((2, s.b, p.b_range), (3, s.m, p.m_range)):
        outward = ((value <= ends[0]) & (gradient[:, k] < 0)) | ((value >= ends[1]) & (gradient[:, k] > 0))
        free[:, k] = ~outward
    return matrix, gradient, free


def masked(matrix: Array, free: Bools) -> Array:
    """`matrix` [K, d, d] with rows and columns of what is not free replaced by the identity."""
    both = free[:, :, None] & free[:, None, :]
    return np.where(both, matrix, np.eye(matrix.shape[-1]))


def _gauss_newton_step(p: Problem, s: _State, damping: Array, move: tuple[bool, bool]) -> Array:
    matrix, gradient, free = _normal(p, s)
    free[:, 2:] &= np.array(move)
    # Scaled by the data's weight, so that a flat direction is damped as well as a steep one.
    least = 1e-14 * p.w.sum(axis=-1, keepdims=True)
    ridge = np.diagonal(matrix, axis1=1, axis2=2) * damping[:, None] + least
    ridge[:, :2] = least
    matrix = masked(matrix + ridge[:, :, None] * np.eye(4), free)
    step = np.linalg.solve(matrix, np.where(free, gradient, 0.0)[:, :, None])[:, 2:, 0]
    return np.clip(step, -2.0, 2.0)
