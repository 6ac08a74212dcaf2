"""The paper's own procedure (arXiv 2510.13786), as the baseline that ours is compared with."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from scaling.curve import Array
from scaling.fitting import fit_points, goodness
from scaling.models import Fit
from scaling.points import Points, prepare

MARGIN = 0.02  # section 2.1: three independent runs differed in A by at most 0.015

A_GRID = np.round(np.arange(0.450, 0.8001, 0.005), 3)  # section A.5
C_MID_GRID = np.linspace(100.0, 40000.0, 100)


@dataclass(frozen=True)
class GridFit:
    """The best cell of the grid; `at_edge` names A or C_mid where the cell lies on the grid's edge."""

    r0: float
    a: float
    b: float
    c_mid: float
    sse: float
    at_edge: tuple[str, ...]
    calls: int


def fit_grid(
    compute: ArrayLike,
    reward: ArrayLike,
    *,
    r0: float,
    a_grid: Array = A_GRID,
    c_mid_grid: Array = C_MID_GRID,
) -> GridFit | None:
    """The procedure of section A.5: for each (A, C_mid) of the grid, B by SciPy's `curve_fit` from its default start;
    the cell with the least sum of squared residuals wins. R0 is given. None if no cell converges.

    compute [n], reward [n]. One `curve_fit` a cell, 7,100 with the paper's grid: this takes seconds.
    """
    from scipy.optimize import OptimizeWarning, curve_fit  # slow to import, and only needed here

    points = prepare(compute, reward)
    best: tuple[float, float, float, float] | None = None
    calls = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", OptimizeWarning)
        for a in a_grid:
            for c_mid in c_mid_grid:
                calls += 1
                found = _fit_cell(curve_fit, points, r0, float(a), float(c_mid))
                if found is not None and (best is None or found[0] < best[0]):
                    best = (found[0], found[1], float(a), float(c_mid))
    if best is None:
        return None
    sse, b, a, c_mid = best
    edges = (("A", a, a_grid), ("C_mid", c_mid, c_mid_grid))
    at_edge = tuple(name for name, value, grid in edges if value in (grid[0], grid[-1]))
    return GridFit(r0, a, b, c_mid, sse, at_edge, calls)


def _fit_cell(curve_fit, points: Points, r0: float, a: float, c_mid: float) -> tuple[float, float] | None:
    """(sse, B) of one cell, or None where `curve_fit` gives up."""

    def model(c: Array, b: float) -> Array:
        return r0 + (a - r0) / (1.0 + (c_mid / c) ** b)

    try:
        (b,), _ = curve_fit(model, points.compute, points.reward)
    except RuntimeError:
        return None
    residuals = points.reward - model(points.compute, b)
    sse = float(residuals @ residuals)
    return (sse, float(b)) if np.isfinite(sse) and b > 0 else None


def fit_paper(data: Points, *, form: str, r0: float | None, first_reward: float, level: float) -> Fit:
    """`method="paper"`: parameters from the grid; status and intervals from the likelihood of the same data.

    The procedure has no R0 to find: one that is not given is the mean of the evaluations before the first
    update, or else `first_reward`, the reward at the least compute given. A best cell on the edge of the grid pins
    nothing, so it is "not_identified".
    """
    if r0 is None:
        r0 = float(data.r0_observed.mean()) if len(data.r0_observed) else first_reward
    r0 = min(r0, 1.0 - 1e-9)
    ours = replace(fit_points(data, form=form, r0=r0, level=level), method="paper")
    if ours.params is None:
        return ours
    if (grid := fit_grid(data.compute, data.reward, r0=r0)) is None:
        return replace(
            ours,
            status="failed",
            params=None,
            likelihood=None,
            sse=None,
            r2=None,
            message="no cell of the grid converged",
        )
    params = {"R0": r0, "A": grid.a, "B": grid.b, "C_mid": grid.c_mid}
    sse, r2 = goodness(data, form, params)
    ours = replace(ours, params=params, sse=sse, r2=r2)
    if not grid.at_edge:
        return ours
    message = f"not identified: the best cell is on the edge of the paper's grid ({', '.join(grid.at_edge)})"
    return replace(ours, status="not_identified", bounds_hit=grid.at_edge, message=message)
