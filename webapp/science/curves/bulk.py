"""Curves of many runs at once, in one query whatever their number: every point, or some that stay where they are."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db import connection

from headroom.adapters.naming import names_for
from webapp.record.runs.many import CHOSEN, POINTS
from webapp.science.curves.axes import AXES, DEFAULT_AXIS, DEFAULT_METRIC
from webapp.science.curves.fitting import CRASHED, Curve, Question, curve_from, try_fit

if TYPE_CHECKING:
    import scaling

SAMPLED_POINTS = 32  # about so many of each run, where many runs share a chart
_ALL = f"""{CHOSEN}
SELECT s.run_id, p.{{x}}, p.step, p.device_hours, p.value, p.stderr FROM {POINTS} AND p.{{x}} IS NOT NULL
ORDER BY s.id, p.{{x}}, p.attempt, p.seq
"""  # nosec B608  # constants and one of four names; values are parameters


def curves_of(
    run_ids: Iterable[str], x: str = DEFAULT_AXIS, metric: str = DEFAULT_METRIC
) -> dict[str, Curve]:
    """Run -> every effective, unsampled point of its series, as `webapp.science.curves.fitting.curve_of` gives them."""
    found: dict[str, list[tuple]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_ALL.format(x=AXES[x].key), {"runs": list(run_ids), "names": names_for(metric)})
        for run_id, *row in cursor.fetchall():
            found.setdefault(run_id, []).append(tuple(row))
    return {run_id: curve_from(rows) for run_id, rows in found.items()}


_UNKNOWN = f"""{CHOSEN}
SELECT s.run_id, count(*) FROM {POINTS} AND p.{{x}} IS NULL AND p.step > 0 GROUP BY s.run_id
"""  # nosec B608  # constants and one of four names; values are parameters


def unknown_counts(
    run_ids: Iterable[str], x: str = DEFAULT_AXIS, metric: str = DEFAULT_METRIC
) -> dict[str, int]:
    """Run -> how many of its effective evaluations have no known compute on this axis; only runs that have such."""
    if x == "step":
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_UNKNOWN.format(x=AXES[x].key), {"runs": list(run_ids), "names": names_for(metric)})
        return dict(cursor.fetchall())


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


# The newest point of each 2^k steps. A coarser stretch is a union of finer ones, so more data thins points out but
# never moves one.
_THIN = f"""{CHOSEN}, here AS (
    SELECT s.run_id, p.step, p.attempt, p.seq, p.{{x}} AS x, p.value FROM {POINTS} AND p.{{x}} > 0
), scale AS (
    SELECT run_id, count(*) AS total, CASE WHEN count(*) <= %(points)s THEN 0 ELSE (
        SELECT min(k) FROM generate_series(0, 62) AS k WHERE (max(step) >> k) < %(points)s) END AS k
    FROM here GROUP BY run_id
), kept AS (
    SELECT DISTINCT ON (run_id, step >> k) run_id, total, x, value
    FROM here JOIN scale USING (run_id) ORDER BY run_id, step >> k, attempt DESC, seq DESC
)
SELECT run_id, min(total), array_agg(x ORDER BY x), array_agg(value ORDER BY x) FROM kept GROUP BY run_id
"""  # nosec B608  # constants and one of four names; values are parameters


def thinned_curves(
    run_ids: Iterable[str],
    x: str = DEFAULT_AXIS,
    metric: str = DEFAULT_METRIC,
    points: int = SAMPLED_POINTS,
) -> dict[str, Thinned]:
    """Run -> at most about `points` of its effective points; more data thins them out but never moves one.

    For charts of many runs only: fits, tables and downloads read every point. KeyError for an axis that is none.
    """
    column = AXES[x].key  # one of four names, so that it can stand in the statement
    parameters: dict[str, Any] = {"runs": list(run_ids), "names": names_for(metric), "points": points}
    with connection.cursor() as cursor:
        cursor.execute(_THIN.format(x=column), parameters)
        rows = cursor.fetchall()
    return {run_id: Thinned(np.array(at), np.array(value), total) for run_id, total, at, value in rows}
