"""Any metrics over many runs, thinned for small charts: one query over the effective points of all series.

Of a long series every 2^k-th of its own strides is read (the stride: from its first step to its second), through an
index of its steps, so that what it costs does not grow with the runs' length.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from django.db import connection

from headroom.adapters.naming import SYSTEM
from webapp.record.runs.points import AXES
from webapp.record.runs.sampling import INDEXED_STRIDE, columns_of_runs, stride_for

MOST_POINTS = 60  # of a line
EMPTIED = MOST_POINTS // 4  # fewer points than this: its steps are no multiples of the stride
PATTERN = "*?["

_NAMES = """
SELECT metric, count(*) FROM runs_series WHERE run_id = ANY(%(runs)s) GROUP BY metric ORDER BY metric
"""
_ENDS = """
SELECT s.id, s.run_id, s.metric, head.steps, tail.step, counted.n FROM runs_series AS s
JOIN LATERAL (SELECT array_agg(step) AS steps FROM (
    SELECT step FROM runs_point WHERE series_id = s.id ORDER BY attempt, seq LIMIT 2) AS two) AS head ON true
JOIN LATERAL (
    SELECT step FROM runs_point WHERE series_id = s.id ORDER BY attempt DESC, seq DESC LIMIT 1) AS tail ON true
JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT 1 FROM runs_point WHERE series_id = s.id LIMIT %(most)s + 1) AS counted_up_to) AS counted ON true
WHERE s.run_id = ANY(%(runs)s) AND s.metric = ANY(%(metrics)s)
"""
_SENT = """string_agg(int8send(p.step), ''), string_agg(float8send(coalesce(p.{x}::float8, 'NaN')), ''),
        string_agg(float8send(p.value), '')"""
_FOUND = """
SELECT wanted.id, found.* FROM unnest(%(ids)s::bigint[], %(strides)s::bigint[], %(lasts)s::bigint[])
    AS wanted (id, stride, last)
CROSS JOIN LATERAL (
    SELECT {sent} FROM runs_effective_point AS p WHERE p.series_id = wanted.id
        AND (p.step %% wanted.stride = 0 OR p.step = wanted.last) HAVING count(*) > 0
) AS found
UNION ALL
SELECT wanted.id, found.* FROM unnest(%(long_ids)s::bigint[], %(long_strides)s::bigint[], %(long_lasts)s::bigint[])
    AS wanted (id, stride, last)
CROSS JOIN LATERAL (
    SELECT {sent} FROM runs_effective_point AS p WHERE p.series_id = wanted.id AND p.step %% {indexed} = 0
        AND p.step = ANY(ARRAY(SELECT generate_series(0, wanted.last, wanted.stride))) HAVING count(*) > 0
) AS found
"""
# What was reported as null has no point; a partial index finds the records.
_GAPS = """
SELECT record.run_id, one.key, array_agg(coalesce({x}, 'NaN')) FROM runs_record AS record
CROSS JOIN LATERAL jsonb_each(record.metrics) AS one
WHERE record.run_id = ANY(%(runs)s) AND record.metrics @? '$.* ? (@ == null)' AND one.value = 'null'
    AND one.key = ANY(%(metrics)s) GROUP BY record.run_id, one.key
"""


@dataclass(frozen=True)
class Line:
    """Some points [m] of a series along the axis, by ascending x. `whole`: none is left out."""

    x: np.ndarray
    y: np.ndarray
    whole: bool


def metrics_of(run_ids: Iterable[str]) -> dict[str, int]:
    """Metric -> how many of the runs report it, by name. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_NAMES, {"runs": list(run_ids)})
        return dict(cursor.fetchall())


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


def lines_of(run_ids: Sequence[str], metrics: Sequence[str], x: str) -> dict[str, dict[str, Line]]:
    """Metric -> run -> its line over an axis. Two queries, and some more for series whose steps are irregular. Raises
    ValueError for no axis."""
    if x not in AXES:
        raise ValueError(f"{x!r} is no axis")
    parameters: dict[str, Any] = {"runs": list(run_ids), "metrics": list(metrics), "most": MOST_POINTS}
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, parameters)
        ends = {
            pk: (run, metric, stride_of(*steps), known)
            for pk, run, metric, *steps, known in cursor.fetchall()
        }
        cursor.execute(_FOUND.format(sent=_SENT.format(x=x), indexed=INDEXED_STRIDE), _wanted(ends))
        rows = cursor.fetchall()
    found: dict[str, dict[str, Line]] = {metric: {} for metric in metrics}
    for pk, *sent in rows:
        run, metric, _, known = ends[pk]
        found[metric][run] = _line(*sent, whole=known <= MOST_POINTS)
    _fill_emptied(found, ends, x)
    return found


def stride_of(first_steps: Sequence[int], last: int) -> tuple[int, int]:
    """The stride of a long series, and its last step: 2^k times the distance of its first two steps."""
    apart = max(1, first_steps[1] - first_steps[0]) if len(first_steps) > 1 else 1
    return apart * stride_for(max(0, last) // apart, MOST_POINTS), last


def _wanted(ends: Mapping[int, tuple]) -> dict[str, list[int]]:
    """The parameters of what is read whole or by looking at all of it, and of what is read through the index."""
    wanted: dict[str, list[int]] = {
        f"{prefix}{name}": [] for prefix in ("", "long_") for name in ("ids", "strides", "lasts")
    }
    for pk, (_, _, (stride, last), known) in ends.items():
        is_whole = known <= MOST_POINTS
        prefix = "long_" if not is_whole and stride % INDEXED_STRIDE == 0 else ""
        for name, value in (("ids", pk), ("strides", 1 if is_whole else stride), ("lasts", last)):
            wanted[f"{prefix}{name}"].append(value)
    return wanted


def _line(steps: bytes, x: bytes, y: bytes, *, whole: bool) -> Line:
    step = np.frombuffer(steps, ">i8").astype("i8")
    at, value = (np.frombuffer(sent, ">f8").astype("f8") for sent in (x, y))
    order = np.lexsort((step, at))
    order = order[np.isfinite(at[order])]
    return Line(at[order], value[order], whole)


def _fill_emptied(found: dict[str, dict[str, Line]], ends: Mapping[int, tuple], x: str) -> None:
    """Series whose steps are no multiples of anything are thinned as other charts are: all of a metric together."""
    emptied: dict[str, list[str]] = {}
    for run, metric, _, known in ends.values():
        line = found[metric].get(run)
        if known > MOST_POINTS and (line is None or len(line.x) < EMPTIED):
            emptied.setdefault(metric, []).append(run)
    for metric, runs in emptied.items():
        for run, columns in columns_of_runs(runs, metric, x, MOST_POINTS).items():
            at, value = np.array(columns.compute, "f8"), np.array(columns.value)
            order = np.argsort(at, kind="stable")
            found[metric][run] = Line(at[order], value[order], columns.total <= len(at))


def gaps_of(run_ids: Sequence[str], metrics: Sequence[str], x: str) -> dict[tuple[str, str], np.ndarray]:
    """(run, metric) -> where on the axis [n] it was reported as null. One query; few runs have any."""
    at = "record.step::float8" if x == "step" else f"nullif(record.compute -> '{x}', 'null')::float8"
    with connection.cursor() as cursor:
        cursor.execute(_GAPS.format(x=at), {"runs": list(run_ids), "metrics": list(metrics)})
        return {(run, metric): np.array(places, "f8") for run, metric, places in cursor.fetchall()}
