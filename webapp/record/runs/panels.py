"""Any metrics over many runs, thinned for small charts (`thinned`), over an axis of training or over another metric
(`pairs`): one query over the effective points of all series."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import ceil, floor, inf

import numpy as np

from headroom.adapters.naming import SYSTEM, names_for
from webapp.base.compiled import rows_of
from webapp.record.runs.pairs import lines_over_metric
from webapp.record.runs.points import AXES
from webapp.record.runs.sampling import INDEXED_STRIDE, sampled_of_runs
from webapp.record.runs.thinned import (
    COLUMNS,
    EVERYWHERE,
    FARTHEST,
    MOST_POINTS,
    MOST_SCANNED,
    NOTHING,
    WALL_CLOCK,
    Lines,
    Points,
    SeriesEnds,
    Window,
    ends_of,
    line_of,
    read_points,
    want_of,
)

PATTERN = "*?["

_NAMES = """
SELECT metric, count(*) FROM runs_series WHERE run_id = ANY(%(runs)s) GROUP BY metric ORDER BY metric
"""
_LOGGED_AS = """
SELECT DISTINCT logged_as, metric FROM runs_series WHERE run_id = ANY(%(runs)s) AND logged_as <> ''
"""
_BEGAN = """
SELECT run.id, extract(epoch FROM least(run.started_at, first.time))::float8 / 3600 FROM runs_run AS run
LEFT JOIN LATERAL (
    SELECT time FROM runs_record WHERE run_id = run.id ORDER BY attempt, seq LIMIT 1) AS first ON true
WHERE run.id = ANY(%(runs)s) AND coalesce(run.started_at, first.time) IS NOT NULL
"""
_NEWEST = """
SELECT s.run_id, s.metric, newest.step, newest.value FROM runs_series AS s JOIN LATERAL (
    SELECT p.step, p.value FROM runs_effective_point AS p WHERE p.series_id = s.id
    ORDER BY p.attempt DESC, p.seq DESC LIMIT 1
) AS newest ON true
WHERE s.run_id = ANY(%(runs)s) AND s.metric = ANY(%(metrics)s)
"""
# What was reported as null has no point; a partial index finds the records.
_GAPS = """
SELECT record.run_id, one.key, array_agg(coalesce(({x})::float8, 'NaN')) FROM runs_record AS record
CROSS JOIN LATERAL jsonb_each(record.metrics) AS one
WHERE record.run_id = ANY(%(runs)s) AND record.metrics @? '$.* ? (@ == null)' AND one.value = 'null'
    AND one.key = ANY(%(metrics)s) GROUP BY record.run_id, one.key
"""


def metrics_of(run_ids: Iterable[str]) -> dict[str, int]:
    """Metric -> how many of the runs report it, by name. One query."""
    return dict(rows_of(_NAMES, {"runs": list(run_ids)}))


def stored_names(run_ids: Iterable[str], names: Collection[str], asked: Iterable[str]) -> dict[str, str]:
    """What trainers or imports call a metric -> what it is called here, where it is one of the names. One query at
    most."""
    found = {one: next((name for name in names_for(one) if name in names), "") for one in asked}
    if not all(found.values()):
        imported = dict(rows_of(_LOGGED_AS, {"runs": list(run_ids)}))
        found |= {one: imported.get(one, "") for one, name in found.items() if not name}
    return {one: name for one, name in found.items() if name}


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that any pattern means, in the order of the patterns: a name, a pattern with `*`, or a part of names.
    What machines do is meant only where it is said."""
    known = list(names)
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern in known:
            found[pattern] = None
            continue
        wanted = pattern if any(sign in pattern for sign in PATTERN) else f"*{pattern}*"
        pool = (
            known if pattern.startswith(SYSTEM) else [name for name in known if not name.startswith(SYSTEM)]
        )
        found |= dict.fromkeys(name for name in pool if fnmatchcase(name, wanted))
    return list(found)


def lines_of(
    run_ids: Sequence[str],
    metrics: Sequence[str],
    x: str,
    window: Window = EVERYWHERE,
    most: int = MOST_POINTS,
    most_scanned: int = MOST_SCANNED,
) -> Lines:
    """Metric -> run -> its line of about `most` points over an axis of COLUMNS, or over any other metric.

    Of a window of the axis, and one point beyond each of its ends, thinned anew. Two queries, up to two more for a
    window and the wall clock, and some more for series whose steps are irregular.
    """
    if x not in COLUMNS:
        return lines_over_metric(run_ids, metrics, x, window, most, most_scanned)
    own = ends_of(run_ids, metrics, most)
    began = _began(run_ids) if x == WALL_CLOCK else {}
    spans = _spans(own, x, window, began) if window != EVERYWHERE else {}
    least = INDEXED_STRIDE if sum(one.last // one.apart for one in own) > most_scanned else 1
    wants = {one.pk: want_of(one, spans.get(one.run, EVERYWHERE), most, least) for one in own}
    read = read_points(wants.values(), x)
    lines: Lines = {metric: {} for metric in metrics}
    emptied: dict[str, list[str]] = {}
    for one in own:
        points = read.get(want := wants[one.pk], NOTHING)
        if want.is_emptied(len(points.x)):
            emptied.setdefault(one.metric, []).append(one.run)
        elif len(points.x):
            lines[one.metric][one.run] = line_of(points, began.get(one.run, 0.0), window, want.is_whole)
    for metric, runs in emptied.items():
        for run, points in _sampled(runs, metric, x, most, window if x in AXES else EVERYWHERE).items():
            lines[metric][run] = line_of(points, began.get(run, 0.0), window, False)
    return lines


def _began(run_ids: Iterable[str]) -> dict[str, float]:
    """Run -> when it began, in hours since 1970: its start or its first record, whichever was earlier."""
    return dict(rows_of(_BEGAN, {"runs": list(run_ids)}))


def _spans(
    own: Iterable[SeriesEnds], x: str, window: Window, began: Mapping[str, float]
) -> dict[str, Window]:
    """Run -> between which steps the window lies: no axis goes back while steps go on. One query at most."""
    if x == "step":
        return {one.run: (ceil(max(-FARTHEST, window[0])), floor(min(FARTHEST, window[1]))) for one in own}
    densest: dict[str, SeriesEnds] = {}
    for one in own:
        if one.run not in densest or one.last / one.apart > densest[one.run].last / densest[one.run].apart:
            densest[one.run] = one
    wants = {want_of(one, EVERYWHERE, MOST_POINTS): run for run, one in densest.items()}
    spans = {}
    for want, points in read_points(wants, x).items():
        at = points.x - began.get(run := wants[want], 0.0)
        spans[run] = (
            max(points.step[at < window[0]], default=-inf), min(points.step[at > window[1]], default=inf),
        )  # fmt: skip
    return spans


def _sampled(
    runs: Sequence[str], metric: str, x: str, most: int, window: Window = EVERYWHERE
) -> dict[str, Points]:
    """Run -> its points; steps that are no multiples of anything are thinned as in other charts. Two queries."""
    axis = x if x in AXES else "step"
    ends = {name: end for name, end in zip(("lo", "hi"), window, strict=True) if np.isfinite(end)}
    found = sampled_of_runs(runs, metric, axis, most, **ends)
    return {
        run: Points(
            np.array([point.step for point in one.points], "i8"),
            np.array([
                point.time.timestamp() / 3600 if x == WALL_CLOCK else getattr(point, x) for point in one.points
            ], "f8"),
            np.array([point.value for point in one.points], "f8"),
        )
        for run, one in found.items()
    }  # fmt: skip


def newest_of(run_ids: Iterable[str], metrics: Sequence[str]) -> dict[tuple[str, str], tuple[int, float]]:
    """(run, metric) -> step and value of its newest effective point, where there is one. One query."""
    found = rows_of(_NEWEST, {"runs": list(run_ids), "metrics": list(metrics)})
    return {(run, metric): (step, value) for run, metric, step, value in found}


def gaps_of(run_ids: Sequence[str], metrics: Sequence[str], x: str) -> dict[tuple[str, str], np.ndarray]:
    """(run, metric) -> where on an axis of COLUMNS [n] it was reported as null. One query; few runs have any."""
    at = f"nullif(record.compute -> '{x}', 'null')" if x in AXES else COLUMNS[x].replace("p.", "record.")
    at = "record.step" if x == "step" else at
    rows = rows_of(_GAPS.format(x=at), {"runs": list(run_ids), "metrics": list(metrics)})
    found = {(run, metric): np.array(places, "f8") for run, metric, places in rows}
    began = _began({run for run, _ in found}) if x == WALL_CLOCK and found else {}
    return {owner: places - began.get(owner[0], 0.0) for owner, places in found.items()}
