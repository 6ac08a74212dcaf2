"""Reading stored alarms.

Reading the watched series of a run, in one query.
"""

import re
from collections.abc import Iterable

import numpy as np
from django.db import connection

from webapp.record.alarm_rules import ANY_METRIC, Level, rules_by_name
from webapp.record.runs.models import Run
from webapp.reporting.alarms.judge import Watched
from webapp.reporting.alarms.models import Alarm

# Values that were not finite are in no series, only in their record (a partial index finds those records); they come
# back as NaN in their places. Bytes instead of arrays: a run's values cross Python once and not one by one.
WATCHED = """
WITH missing AS (
    SELECT record.attempt, record.seq, record.step, metric.key AS metric
    FROM runs_record AS record JOIN runs_effective_attempt AS own
        ON own.run_id = record.run_id AND own.attempt = record.attempt AND record.step <= own.last_step
    CROSS JOIN LATERAL jsonb_each(record.metrics) AS metric
    WHERE record.run_id = %(run)s AND record.metrics @? '$.* ? (@ == null)' AND metric.value = 'null'
        AND NOT (metric.key LIKE '%%\\_stderr' AND record.metrics ? left(metric.key, -7))
), given AS (
    SELECT metric, attempt, seq, step, value FROM runs_effective_point
    WHERE run_id = %(run)s AND (metric LIKE ANY(%(metrics)s) OR metric IN (SELECT metric FROM missing))
    UNION ALL
    SELECT metric, attempt, seq, step, 'NaN'::float8 FROM missing
)
SELECT metric, string_agg(int8send(step), '' ORDER BY attempt, seq),
    string_agg(float8send(value), '' ORDER BY attempt, seq)
FROM given GROUP BY metric
"""


def alarms_of(run: Run) -> list[Alarm]:
    """The run's alarms by rules in force: active before over, critical before warnings, then the longest ago."""
    return sorted(Alarm.objects.filter(run=run, rule__in=rules_by_name()), key=_order)


def active_alarms(run_ids: Iterable[str]) -> dict[str, list[Alarm]]:
    """Run -> its active alarms, for many runs in one query."""
    found: dict[str, list[Alarm]] = {}
    rows = Alarm.objects.filter(run__in=list(run_ids), active=True, rule__in=rules_by_name()).defer("marks")
    for alarm in sorted(rows, key=_order):
        found.setdefault(alarm.run_id, []).append(alarm)
    return {run_id: most_severe(alarms) for run_id, alarms in found.items()}


def most_severe(alarms: Iterable[Alarm]) -> list[Alarm]:
    """Of the alarms of one metric on one side only the most severe: a critical one says what the warning would."""
    kept: dict[tuple[str, bool], Alarm] = {}
    known = rules_by_name()
    for alarm in sorted(alarms, key=_order):
        kept.setdefault((alarm.metric, known[alarm.rule].comparison.upwards), alarm)
    return list(kept.values())


def _order(alarm: Alarm) -> tuple[bool, bool, int, str]:
    return not alarm.active, alarm.level != Level.CRITICAL, alarm.first_step, alarm.rule


def watched_series(run_id: str, metrics: list[str]) -> dict[str, Watched]:
    """Metric -> its effective (not superseded) values, of these metrics, or patterns with `*`, and of any that was
    reported as null."""
    names = [re.sub(r"([%_\\])", r"\\\1", name).replace("*", "%") for name in metrics if name != ANY_METRIC]
    with connection.cursor() as cursor:
        cursor.execute(WATCHED, {"run": run_id, "metrics": names})
        rows = cursor.fetchall()
    return {
        metric: Watched(
            np.frombuffer(steps, dtype=">i8").astype(int), np.frombuffer(values, dtype=">f8").astype(float)
        )
        for metric, steps, values in rows
    }
