"""Many series of one run, thinned for small charts: of a long run an eighth of the points is looked at, not all."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from webapp.record.runs.models import Run
from webapp.record.runs.sampling import columns_of_runs
from webapp.record.runs.thinning import MAX_POINTS, stride_for

FEWEST_POINTS = MAX_POINTS // 8
INDEXED_STRIDE = 8  # the index point_every_8 has the points of these steps alone

_EFFECTIVE = """NOT EXISTS (
    SELECT 1 FROM runs_attempt AS a
    WHERE a.run_id = %(run)s AND a.number > p.attempt AND a.started_at IS NOT NULL
        AND (a.resumed_from_step IS NULL OR a.resumed_from_step < p.step))"""
# Of each series the newest point, and its length as far as it matters. Without a later attempt nothing is superseded,
# and an index alone can tell the length.
_ENDS = f"""
WITH later AS MATERIALIZED (
    SELECT EXISTS (
        SELECT 1 FROM runs_attempt WHERE run_id = %(run)s AND number > 1 AND started_at IS NOT NULL) AS is_there
)
SELECT s.id, s.metric, newest.step, newest.value, CASE WHEN (SELECT is_there FROM later) THEN (
    SELECT count(*) FROM (
        SELECT 1 FROM runs_point AS p WHERE p.series_id = s.id AND {_EFFECTIVE} LIMIT {MAX_POINTS + 1}) AS counted
) ELSE (
    SELECT count(*) FROM (
        SELECT 1 FROM runs_point AS p WHERE p.series_id = s.id LIMIT {MAX_POINTS + 1}) AS counted
) END
FROM runs_series AS s
JOIN LATERAL (
    SELECT p.step, p.value FROM runs_point AS p WHERE p.series_id = s.id AND {_EFFECTIVE}
    ORDER BY p.attempt DESC, p.seq DESC LIMIT 1
) AS newest ON true
WHERE s.run_id = %(run)s AND s.metric = ANY(%(metrics)s)
"""  # nosec B608  # constants; values are parameters
_CHOSEN = """
SELECT p.series_id, p.step, p.value, p.attempt, p.seq FROM runs_point AS p
WHERE p.series_id = ANY(%(long)s) AND {indexed} p.step %% %(stride)s = 0 AND {effective}
UNION ALL
SELECT p.series_id, p.step, p.value, p.attempt, p.seq FROM runs_point AS p
WHERE p.series_id = ANY(%(short)s) AND {effective}
ORDER BY step, attempt, seq
"""


@dataclass
class Thinned:
    """Steps and values of a series, ascending; its newest point is always the last."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def thinned_series(run: Run, metrics: Sequence[str]) -> tuple[dict[str, Thinned], int]:
    """Metric -> every stride-th step and the newest, of those that the run reports; and the stride. Two queries.

    The stride is the least power of two that leaves at most MAX_POINTS steps of the run, so that a point that is
    shown never moves. Series of at most MAX_POINTS points are shown whole; for one of which so too little would
    be left, points are chosen as for charts (`webapp.record.runs.sampling`), one query each.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, {"run": run.pk, "metrics": list(metrics)})
        ends = cursor.fetchall()
        if not ends:
            return {}, 1
        stride = stride_for(max(step for _, _, step, _, _ in ends))
        parameters: dict[str, Any] = {
            "run": run.pk,
            "stride": stride,
            "long": [series for series, *_, count in ends if count > MAX_POINTS],
            "short": [series for series, *_, count in ends if count <= MAX_POINTS],
        }
        cursor.execute(_statement(stride), parameters)
        found: dict[int, Thinned] = {}
        for series, step, value, _, _ in cursor.fetchall():
            line = found.setdefault(series, Thinned())
            line.steps.append(step)
            line.values.append(value)
    for pk, metric, _, _, count in ends:
        if count > MAX_POINTS and len(found.get(pk, Thinned()).steps) < FEWEST_POINTS:
            found[pk] = _sampled(run, metric)
    return {
        metric: _with_end(found.get(pk, Thinned()), at, value) for pk, metric, at, value, _ in ends
    }, stride


def _sampled(run: Run, metric: str) -> Thinned:
    """Of a series that few multiples of the stride are steps of: they count tokens, or are far apart."""
    columns = columns_of_runs([run.pk], metric, points=MAX_POINTS)[run.pk]
    steps, values = zip(*sorted(zip(columns.step, columns.value, strict=True)), strict=True)
    return Thinned(list(steps), list(values))


def _statement(stride: int) -> str:
    indexed = f"p.step %% {INDEXED_STRIDE} = 0 AND" if stride % INDEXED_STRIDE == 0 else ""
    return _CHOSEN.format(indexed=indexed, effective=_EFFECTIVE)


def _with_end(line: Thinned, step: int, value: float) -> Thinned:
    if not line.steps or line.steps[-1] < step:
        line.steps.append(step)
        line.values.append(value)
    return line
