"""Summaries made anew from what is stored: newest record, effective evaluations, newest forecast."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from django.db import connection, transaction

from webapp.record.runs.models import Run
from webapp.record.runs.summaries import SPARK_POINTS
from webapp.science.curves.axes import DEFAULT_AXIS, DEFAULT_METRIC

CHUNK = 200  # runs a statement

COLUMNS = """used_hours, used_attempt, used_seq, pass_rate, pass_rate_stderr, pass_rate_attempt, pass_rate_seq,
    spark, fit_status, level, tail, ceiling, ceiling_lo, ceiling_hi, reached"""
# A row that would say the same is not written, so that the count tells how many runs changed.
REBUILD = """
INSERT INTO runs_summary AS known (run_id, {columns})
SELECT run.id, coalesce(used.hours, line.hours), coalesce(used.attempt, 0), coalesce(used.seq, -1),
    line.value, line.stderr, coalesce(line.attempt, 0), coalesce(line.seq, -1), coalesce(line.spark, '[]'),
    coalesce(fit.forecast ->> 'status', ''), (fit.forecast -> 'level')::float8, (fit.forecast ->> 'ceiling')::float8,
    CASE WHEN fit.forecast ->> 'status' = 'ok' THEN (fit.forecast ->> 'ceiling')::float8 END,
    (fit.forecast -> 'interval' ->> 0)::float8, (fit.forecast -> 'interval' ->> 1)::float8,
    (fit.forecast ->> 'reached')::float8
FROM runs_run AS run
LEFT JOIN LATERAL (
    SELECT nullif(compute -> 'device_hours', 'null')::float8 AS hours, attempt, seq FROM runs_record
    WHERE run_id = run.id ORDER BY attempt DESC, seq DESC LIMIT 1
) AS used ON true
LEFT JOIN LATERAL (
    SELECT max(value) FILTER (WHERE place = total) AS value, max(stderr) FILTER (WHERE place = total) AS stderr,
        max(attempt) AS attempt, max(seq) FILTER (WHERE place = total) AS seq,
        max(device_hours) FILTER (WHERE place = total) AS hours,
        jsonb_agg(value ORDER BY place) FILTER (
            WHERE (place - 1) %% ((total + %(points)s - 1) / %(points)s) = 0 OR place = total) AS spark
    FROM (
        SELECT value, stderr, attempt, seq, device_hours,
            row_number() OVER (ORDER BY attempt, seq) AS place, count(*) OVER () AS total
        FROM runs_effective_point WHERE run_id = run.id AND metric = %(metric)s
    ) AS effective
) AS line ON true
LEFT JOIN LATERAL (
    SELECT forecast FROM curves_fit
    WHERE run_id = run.id AND metric = %(metric)s AND x = %(axis)s AND form = 'sigmoid'
        AND cutoff IS NULL AND window_lo IS NULL AND NOT superseded
    ORDER BY id DESC LIMIT 1
) AS fit ON true
WHERE run.id = ANY(%(runs)s)
ON CONFLICT (run_id) DO UPDATE SET ({columns}) = ROW({excluded})
WHERE ({known}) IS DISTINCT FROM ({excluded})
"""


def _with_prefix(prefix: str) -> str:
    return ", ".join(f"{prefix}.{column.strip()}" for column in COLUMNS.split(","))


STATEMENT = REBUILD.format(columns=COLUMNS, excluded=_with_prefix("excluded"), known=_with_prefix("known"))


@transaction.atomic
def rebuild(run_ids: Iterable[str]) -> int:
    """Make these runs' summaries anew, in two queries; how many changed. Safe to repeat.

    Records wait meanwhile: what they would note must not be overwritten by what was read before them.
    """
    ids = sorted(run_ids)
    list(Run.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))
    values: dict[str, Any] = {
        "runs": ids,
        "metric": DEFAULT_METRIC,
        "axis": DEFAULT_AXIS,
        "points": SPARK_POINTS,
    }
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT, values)
        return max(cursor.rowcount, 0)


def rebuild_all() -> Iterator[tuple[int, int]]:
    """Every run, some at a time; yields how many were looked at and how many of them changed."""
    ids = iter(list(Run.objects.order_by("pk").values_list("pk", flat=True)))
    while chunk := list(islice(ids, CHUNK)):
        yield len(chunk), rebuild(chunk)
