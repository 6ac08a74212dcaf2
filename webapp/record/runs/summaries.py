"""The summary of a run as records arrive: one statement a batch, whatever its size.

What a single batch cannot know (superseded points, an evenly thinned line, the fit) the next refit puts right, see
`webapp.science.curves.summaries`.
"""

import json
from collections.abc import Sequence
from typing import Any

from django.db import connection

from training.records import Record
from webapp.record.runs.models import Run, Summary
from webapp.record.runs.selectors import PASS_RATE

SPARK_POINTS = 40
MAX_SPARK = 400  # values kept until a refit thins them

# Only what is newer than what is known counts, so late and repeated batches are harmless.
NOTE = """
INSERT INTO runs_summary AS known (
    run_id, used_hours, used_attempt, used_seq,
    pass_rate, pass_rate_stderr, pass_rate_attempt, pass_rate_seq, spark, fit_status)
VALUES (
    %(run)s, %(used_hours)s, %(used_attempt)s, %(used_seq)s,
    %(pass_rate)s, %(stderr)s, %(attempt)s, %(seq)s, %(spark)s::jsonb, '')
ON CONFLICT (run_id) DO UPDATE SET
    (used_hours, used_attempt, used_seq) = (SELECT
        coalesce(used.hours, CASE WHEN %(derived)s THEN known.used_hours END), used.attempt, used.seq
        FROM (VALUES (known.used_hours, known.used_attempt, known.used_seq),
            (excluded.used_hours, excluded.used_attempt, excluded.used_seq)) AS used (hours, attempt, seq)
        ORDER BY used.attempt DESC, used.seq DESC LIMIT 1),
    (pass_rate, pass_rate_stderr, pass_rate_attempt, pass_rate_seq) = (SELECT
        rate.value, rate.stderr, rate.attempt, rate.seq
        FROM (VALUES (known.pass_rate, known.pass_rate_stderr, known.pass_rate_attempt, known.pass_rate_seq),
            (excluded.pass_rate, excluded.pass_rate_stderr, excluded.pass_rate_attempt, excluded.pass_rate_seq)
        ) AS rate (value, stderr, attempt, seq)
        ORDER BY rate.attempt DESC, rate.seq DESC LIMIT 1),
    spark = CASE
        WHEN (excluded.pass_rate_attempt, excluded.pass_rate_seq) <= (known.pass_rate_attempt, known.pass_rate_seq)
            OR jsonb_array_length(known.spark) >= %(most)s
        THEN known.spark ELSE known.spark || excluded.spark END
"""


def note_records(run: Run, records: Sequence[Record]) -> None:
    """Bring the summary up to date with records that were just stored."""
    newest = max(records, key=_place)
    is_so = run.meaning.keys().isdisjoint(("pass_rate", "percent"))  # else the next refit knows them
    rates = [record for record in records if is_so and record.metrics.get(PASS_RATE) is not None]
    rates.sort(key=_place)
    latest = rates[-1] if rates else None
    values: dict[str, Any] = {
        "run": run.pk,
        "used_hours": None if "device_hours" in run.meaning else newest.compute.device_hours,
        "derived": not run.meaning.keys().isdisjoint(
            ("devices", "device_hours")
        ),  # then the next refit knows them
        "used_attempt": newest.attempt,
        "used_seq": newest.seq,
        "pass_rate": latest.metrics[PASS_RATE] if latest else None,
        "stderr": latest.metrics.get(f"{PASS_RATE}_stderr") if latest else None,
        "attempt": latest.attempt if latest else 0,
        "seq": latest.seq if latest else -1,
        "spark": json.dumps(thinned([record.metrics[PASS_RATE] for record in rates])),
        "most": MAX_SPARK,
    }
    with connection.cursor() as cursor:
        cursor.execute(NOTE, values)


def summary_of(run: Run) -> Summary:
    """The run's summary; an empty one where it has reported nothing yet."""
    return getattr(run, "summary", None) or Summary(run=run)


def spent_hours(run: Run, used_hours: float | None) -> float | None:
    """The device-hours of a summary as a page may show them; None where nobody knows.

    Of a run that was launched here nothing reported is nothing spent; of one that trains elsewhere it is unknown.
    """
    return 0.0 if used_hours is None and run.origin == Run.Origin.LAUNCHED else used_hours


def _place(record: Record) -> tuple[int, int]:
    return record.attempt, record.seq


def thinned(values: Sequence[float | None], points: int = SPARK_POINTS) -> list[float | None]:
    """Some `points` evenly picked values, the last among them."""
    stride = (len(values) + points - 1) // points or 1
    return [value for i, value in enumerate(values) if i % stride == 0 or i == len(values) - 1]
