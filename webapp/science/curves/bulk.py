"""Fits of many curves, and for charts of many runs some points of each that stay where they are."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from webapp.record.runs.points import arrays_of
from webapp.record.runs.thinning import newest
from webapp.science.curves.axes import AXES, DEFAULT_AXIS, DEFAULT_METRIC
from webapp.science.curves.fitting import CRASHED, Curve, Question, try_fit

if TYPE_CHECKING:
    import scaling

SAMPLED_POINTS = 32  # about so many of each run, where many runs share a chart


def fits_of(
    curves: dict[str, Curve], question: Question | None = None
) -> "tuple[dict[str, scaling.Fit], list[str]]":
    """Run -> the fit of its whole curve, as its own page shows it, without runs of too few points; and the runs whose
    fit crashed, which whoever shows the others says (`webapp.science.curves.fitting.crash_note`)."""
    found, crashed = {}, []
    for run_id, curve in curves.items():
        fit, problem = try_fit(curve, question or Question())
        if fit is not None:
            found[run_id] = fit
        elif problem == CRASHED:
            crashed.append(run_id)
    return found, crashed


def used_hours(curve: Curve | None) -> float:
    """Device-hours at the newest evaluation."""
    return float(curve.hours[-1]) if curve is not None and len(curve.hours) and curve.hours[-1] > 0 else 0.0


@dataclass(frozen=True)
class Thinned:
    """Some points of a run, x ascending [n], y [n], and how many there are in all."""

    x: np.ndarray
    y: np.ndarray
    total: int


def thinned_curves(
    run_ids: Iterable[str],
    x: str = DEFAULT_AXIS,
    metric: str = DEFAULT_METRIC,
    points: int = SAMPLED_POINTS,
) -> dict[str, Thinned]:
    """Run -> at most about `points` of its effective points; more data thins them out but never moves one.

    For charts of many runs only: fits, tables and downloads read every point. KeyError for an axis that is none.
    """
    key = AXES[x].key  # one of four names, so that it can stand in the statement
    found = arrays_of(run_ids, metric, ("step", key, "value"), f"p.{key} > 0")
    return {run_id: _thinned(*columns, most=points) for run_id, columns in found.items()}


def _thinned(step: np.ndarray, x: np.ndarray, value: np.ndarray, *, most: int) -> Thinned:
    kept = newest(step, most)
    kept = kept[np.argsort(x[kept], kind="stable")]
    return Thinned(x[kept], value[kept], len(step))
