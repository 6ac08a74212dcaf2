"""Curves and fits of many runs in one query: what a study and the planner look at together."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

import scaling
from webapp.curves.axes import DEFAULT_AXIS, DEFAULT_METRIC
from webapp.curves.fitting import Curve, Question, fit_curve
from webapp.runs.models import Point
from webapp.runs.selectors import CurvePoint, effective


def curves_of(
    run_ids: Iterable[str], x: str = DEFAULT_AXIS, metric: str = DEFAULT_METRIC
) -> dict[str, Curve]:
    """Run -> every effective, unsampled point of one series; runs without any are left out. One query."""
    points = effective(Point.objects.filter(series__run__in=list(run_ids), series__metric=metric))
    rows = points.order_by("series_id", "attempt", "seq").values_list("series__run_id", *CurvePoint._fields)
    found: dict[str, list[CurvePoint]] = defaultdict(list)
    for run_id, *values in rows:
        found[run_id].append(CurvePoint(*values))
    return {run_id: _curve(points, x) for run_id, points in found.items()}


def _curve(points: list[CurvePoint], x: str) -> Curve:
    """As `webapp.curves.fitting.curve_of` makes it of one run."""
    usable = sorted((p for p in points if getattr(p, x) is not None), key=lambda p: getattr(p, x))
    at_zero = [p for p in usable if getattr(p, x) <= 0]
    later = [p for p in usable if getattr(p, x) > 0]
    known = lambda value: np.nan if value is None else value
    return Curve(
        x=np.array([getattr(p, x) for p in later], float),
        y=np.array([p.value for p in later], float),
        se=np.array([known(p.stderr) for p in later], float),
        step=np.array([p.step for p in later], int),
        hours=np.array([known(p.device_hours) for p in later], float),
        start=tuple(p.value for p in at_zero),
        start_se=at_zero[0].stderr if at_zero else None,
    )


def fits_of(curves: dict[str, Curve], question: Question | None = None) -> "dict[str, scaling.Fit]":
    """Run -> the fit of its whole curve, as its own page shows it; runs with too few points are left out."""
    found = {}
    for run_id, curve in curves.items():
        try:
            found[run_id] = fit_curve(curve, question or Question())
        except scaling.InputError:
            continue
    return found


def used_hours(curve: Curve | None) -> float:
    """Device-hours at the newest evaluation."""
    return float(curve.hours[-1]) if curve is not None and len(curve.hours) and curve.hours[-1] > 0 else 0.0
