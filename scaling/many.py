"""Many curves at once: the least squares of thousands of runs in one call, as a refit of a whole project needs.

The same search as `scaling.fit`, over a coarser grid, with all curves of a chunk side by side: K curves padded to one
length [K, n] by points of weight 0. It gives parameters; status and intervals of any one curve come from
`ManyFits.fit`. The sum of squares is that of `scaling.fit`, but for the power law, whose threshold makes a basin at
each point: there it may be up to a hundredth larger.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from scaling.curve import FORMS, NAMES, Array, share
from scaling.fitting import fit_points, hopeless, make_problem
from scaling.models import Fit
from scaling.points import InputError, Points, prepare
from scaling.solve import Moments, Problem, Solutions, is_flat, refine, shares, solve_linear, window_rise

Curve = tuple[ArrayLike, ArrayLike]

_ROUGH = 5  # iterations that tell the basins apart; only the best one is refined to the end
CHUNK = 64  # curves whose grids fit into a core's cache together


@dataclass(frozen=True)
class _Grid:
    """Values of B; of C_mid before, among and after the points; starts, one in each part of the range of C_mid."""

    b: int = 14
    m: tuple[int, int, int] = (4, 14, 6)
    starts: int = 4


_GRIDS = {form: _Grid() for form in FORMS} | {
    "power": _Grid(20, (4, 48, 6), 16)  # its threshold makes a basin at each point
}


@dataclass(frozen=True)
class ManyFits:
    """Parameters of K curves: `params` name -> [K], `sse` [K], `r2` [K]; NaN where a curve does not rise or has too
    few different computes. `n` [K]: points used."""

    form: str
    params: dict[str, Array]
    sse: Array
    r2: Array
    n: np.ndarray
    level: float = 0.9
    data: tuple[Points, ...] = field(default=(), repr=False)
    options: dict = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.sse)

    def fit(self, index: int) -> Fit:
        """The whole fit of one curve: status, message, intervals."""
        return fit_points(self.data[index], form=self.form, level=self.level, **self.options)


def fit_many(
    curves: Sequence[Curve],
    *,
    form: str = "sigmoid",
    r0: float | None = None,
    r0_observed: Sequence[Sequence[float]] | None = None,
    level: float = 0.9,
    bounded: bool = True,
    work: Sequence[ArrayLike | None] | None = None,
) -> ManyFits:
    """Least squares of each (compute [n], reward [n]); arguments as of `scaling.fit`, `r0_observed` and `work` one a
    curve.

    Raises InputError, naming the curve, where `scaling.fit` would; nothing is fitted then.
    """
    if form not in FORMS:
        raise InputError(f"unknown form {form!r}: use one of {', '.join(FORMS)}")
    if r0_observed is not None and len(r0_observed) != len(curves):
        raise InputError(f"{len(curves)} curves but {len(r0_observed)} lists in r0_observed")
    starts = r0_observed if r0_observed is not None else [()] * len(curves)
    data = tuple(
        _prepared(i, c, r, s, bounded, w)
        for i, ((c, r), s, w) in enumerate(zip(curves, starts, work or [None] * len(curves), strict=True))
    )
    found = np.full((len(data), 6), np.nan)
    usable = [i for i in range(len(data)) if not hopeless(data[i])]
    usable.sort(key=lambda i: len(data[i].compute))  # little padding
    for at in range(0, len(usable), CHUNK):
        chunk = usable[at : at + CHUNK]
        found[chunk] = _solve_chunk([data[i] for i in chunk], form, r0, bounded)
    columns = dict(zip(NAMES, found.T[:4], strict=True))
    counts = np.array([len(points.compute) for points in data], dtype=int)
    options = {"r0": r0, "bounded": bounded}
    return ManyFits(form, columns, found[:, 4], found[:, 5], counts, level, data, options)


def _prepared(
    index: int, compute: ArrayLike, reward: ArrayLike, start, bounded: bool, work: ArrayLike | None
) -> Points:
    try:
        return prepare(compute, reward, r0_observed=start, bounded=bounded, work=work)
    except InputError as error:
        raise InputError(f"curve {index}: {error}") from None


def _solve_chunk(data: Sequence[Points], form: str, r0: float | None, bounded: bool) -> Array:
    """[K, 6]: R0, A, B, C_mid, sse, R2."""
    made = [make_problem(points, form, r0, None, bounded) for points in data]
    offset, shift = (np.array([one[k] for one in made]) for k in (1, 2))
    p = _stack([one[0] for one in made])
    grid = _GRIDS[form]
    b, m = _starts(p, grid)
    rough = refine(_repeat(p, grid.starts), b.ravel(), m.ravel(), tolerance=1e-5, max_iterations=_ROUGH)
    best = rough.sse.reshape(b.shape).argmin(axis=1) + grid.starts * np.arange(len(data))
    found = refine(p, rough.b[best], rough.m[best])
    return _columns(p, found, offset, shift)


def _columns(p: Problem, found: Solutions, offset: Array, shift: Array) -> Array:
    g = shares(p, found.b, found.m)
    used = p.w > 0
    residual = np.where(used, p.y - found.r0[:, None] - (found.a - found.r0)[:, None] * g, 0.0)
    sse = (residual**2).sum(axis=1)
    total = (p.w * p.y**2).sum(axis=1)  # y is centred
    high, low = np.where(used, p.y, -np.inf).max(axis=1), np.where(used, p.y, np.inf).min(axis=1)
    values = [
        found.r0 + shift,
        found.a + shift,
        np.exp(found.b),
        np.exp(found.m + offset),
        sse,
        1.0 - sse / total,
    ]
    flat = is_flat(window_rise(p, found), high - low)
    return np.where(flat[:, None], np.nan, np.stack(values, axis=1))


def _stack(problems: Sequence[Problem]) -> Problem:
    """One problem of K rows; the padding repeats the last point with weight 0."""
    n = max(len(p.u) for p in problems)
    s = max(len(p.start_y) for p in problems)
    rows = {
        "u": [np.pad(p.u, (0, n - len(p.u)), mode="edge") for p in problems],
        "y": [np.pad(p.y, (0, n - len(p.u))) for p in problems],
        "w": [np.pad(p.w, (0, n - len(p.u))) for p in problems],
        "start_y": [np.pad(p.start_y, (0, s - len(p.start_y))) for p in problems],
        "start_w": [np.pad(p.start_w, (0, s - len(p.start_y))) for p in problems],
        "floor": [p.floor for p in problems],
        "cap": [p.cap for p in problems],
    }
    arrays: dict = {name: np.array(values, dtype=float) for name, values in rows.items()}
    ranges = {
        name: tuple(np.array([getattr(p, name)[end] for p in problems]) for end in (0, 1))
        for name in ("b_range", "m_range")
    }
    held = None if problems[0].r0 is None else np.array([p.r0 for p in problems])
    return replace(problems[0], r0=held, **arrays, **ranges)  # type: ignore[arg-type]


def _repeat(p: Problem, times: int) -> Problem:
    """Every row `times` times in a row."""
    again = {
        name: np.repeat(getattr(p, name), times, axis=0)
        for name in ("u", "y", "w", "start_y", "start_w", "floor", "cap")
    }
    ranges = {
        name: tuple(np.repeat(end, times) for end in getattr(p, name)) for name in ("b_range", "m_range")
    }
    held = None if p.r0 is None else np.repeat(p.r0, times)
    return replace(p, r0=held, **again, **ranges)  # type: ignore[arg-type]


def _starts(p: Problem, grid: _Grid) -> tuple[Array, Array]:
    """(log B, log C_mid) [K, starts]: the lowest cell of the grid in each part of its C_mid."""
    b = np.linspace(*p.b_range, grid.b, axis=1)
    first, last = p.u[:, 0], p.u[:, -1]
    before, among, after = grid.m
    m = np.concatenate(
        [
            np.linspace(p.m_range[0], first, before, endpoint=False, axis=1),
            np.linspace(first, last, among, axis=1),
            np.linspace(last, p.m_range[1], after + 1, axis=1)[:, 1:],
        ],
        axis=1,
    )
    sse = _grid_sse(p, b, m)
    chosen_b, chosen_m = [], []
    for part in np.array_split(np.arange(m.shape[1]), grid.starts):
        cell = sse[:, part].reshape(len(sse), -1).argmin(axis=1)
        chosen_m.append(np.take_along_axis(m, part[cell // grid.b][:, None], axis=1)[:, 0])
        chosen_b.append(np.take_along_axis(b, (cell % grid.b)[:, None], axis=1)[:, 0])
    return np.stack(chosen_b, axis=1), np.stack(chosen_m, axis=1)


def _grid_sse(p: Problem, b: Array, m: Array) -> Array:
    """[K, number of m, number of b] sums of squares, R0 and A solved in each cell."""
    k, cells = len(b), m.shape[1] * b.shape[1]
    distance = (p.u[:, None, :] - m[:, :, None])[:, :, None, :]
    g = share(p.form, distance, np.exp(b)[:, None, :, None]).reshape(k, cells, -1)
    gw, gy = (np.matmul(g, v[:, :, None])[:, :, 0] for v in (p.w, p.w * p.y))
    gg = np.matmul(g * g, p.w[:, :, None])[:, :, 0]
    s1, sy, syy, _ = (value[:, None] for value in p.sums)
    mom = Moments(s1 - 2.0 * gw + gg, gw - gg, gg, sy - gy, gy, np.broadcast_to(syy, gg.shape))
    flat = Moments(*(np.ravel(getattr(mom, name)) for name in ("hh", "hg", "gg", "hy", "gy", "yy")))
    held: dict = {
        name: None if getattr(p, name) is None else np.repeat(getattr(p, name), cells)
        for name in ("floor", "cap", "r0")
    }
    return solve_linear(replace(p, **held), flat)[2].reshape(k, m.shape[1], b.shape[1])
