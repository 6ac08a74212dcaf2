"""Storing what trainers report: one COPY a batch, whatever its size; all of it or nothing.

PostgreSQL takes the records apart into points, so a value crosses Python once and as text.

What clients could not have stored of a run: counted, so that nobody takes what is there for all that was logged.

The summary of a run as records arrive: one statement a batch, whatever its size.

What a single batch cannot know (superseded points, an evenly thinned line, the fit) the next refit puts right, see
`webapp.science.curves.services`.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from headroom.adapters.naming import SYSTEM
from training.records import Record
from webapp.base import metrics, task_queue
from webapp.base.compiled import Compiled
from webapp.base.errors import Conflict, InvalidInput, NotFound
from webapp.identity.secrets.services import redact
from webapp.record.runs.lifecycle import ensure_attempts
from webapp.record.runs.meaning import mean_incoming
from webapp.record.runs.models import Run, State, Summary
from webapp.record.runs.selectors import PASS_RATE, is_pass_rate
from webapp.record.runs.states import DRIVER, LEAVES, bump, move
from worker import names

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
MAX_RECORDS = 5000
# Kept for the connection's life, emptied by each commit, so that a batch does not grow the system catalogue. Emptied of
# an earlier batch in this very transaction, too. With it in one go: which names have no series yet.
EMPTY_INCOMING = """
CREATE TEMPORARY TABLE IF NOT EXISTS incoming_record (
    position integer, attempt integer, seq bigint, step bigint, "time" timestamptz, compute jsonb, metrics jsonb
) ON COMMIT DELETE ROWS;
DELETE FROM incoming_record;
SELECT name FROM unnest(%(names)s::text[]) AS name
WHERE NOT EXISTS (SELECT 1 FROM runs_series WHERE run_id = %(run)s AND metric = name)
"""
COPY_INCOMING = "COPY incoming_record FROM STDIN"
# Of names beyond what its project allows a run there is no series: they stay in the records. What machines do takes no
# room of the metrics: as many names more.
INSERT_SERIES = """
WITH missing AS (
    SELECT name, starts_with(name, %(system)s) AS is_system,
        row_number() OVER (PARTITION BY starts_with(name, %(system)s) ORDER BY name) AS place
    FROM unnest(%(names)s::text[]) AS name
    WHERE NOT EXISTS (SELECT 1 FROM runs_series WHERE run_id = %(run)s AND metric = name)
), taken AS MATERIALIZED (
    SELECT count(*) AS names, count(*) FILTER (WHERE starts_with(metric, %(system)s)) AS of_system
    FROM runs_series WHERE run_id = %(run)s
), made AS (
    INSERT INTO runs_series (run_id, metric)
    SELECT %(run)s, name FROM missing CROSS JOIN taken WHERE name = %(always)s OR place <= (
        SELECT max_metrics FROM accounts_project JOIN runs_run ON project_id = accounts_project.id
        WHERE runs_run.id = %(run)s
    ) - CASE WHEN is_system THEN of_system ELSE names - of_system END
    ON CONFLICT (run_id, metric) DO NOTHING
    RETURNING id
)
SELECT (SELECT count(*) FROM missing) - (SELECT count(*) FROM made)
"""
# `X_stderr` beside `X` is its standard error and no series of its own; null is a value that was not finite.
INSERT_RECORDS_AND_POINTS = """
WITH fresh AS (
    INSERT INTO runs_record (run_id, attempt, seq, step, "time", compute, metrics)
    SELECT %(run)s, attempt, seq, step, "time", compute, metrics FROM incoming_record ORDER BY position
    ON CONFLICT (run_id, attempt, seq) DO NOTHING
    RETURNING attempt, seq, step, "time", compute, metrics
), added AS (
    INSERT INTO runs_point
        (series_id, attempt, seq, step, "time", device_hours, flops, tokens, value, stderr)
    SELECT series.id, attempt, seq, step, "time",
        nullif(compute -> 'device_hours', 'null')::float8, nullif(compute -> 'flops', 'null')::float8,
        nullif(compute -> 'tokens', 'null')::float8,
        metric.value::float8, nullif(metrics -> (metric.key || '_stderr'), 'null')::float8
    FROM fresh
    CROSS JOIN LATERAL jsonb_each(metrics) AS metric
    JOIN runs_series AS series ON series.run_id = %(run)s AND series.metric = metric.key
    WHERE metric.value <> 'null'
        AND NOT (metric.key LIKE '%%\\_stderr' AND metrics ? left(metric.key, -7))
)
SELECT count(*) FROM fresh
"""
# One look at the index a record: a plain join may be answered by reading all that the run has ever reported.
FIND_CONFLICT = """
SELECT position FROM incoming_record AS new CROSS JOIN LATERAL (
    SELECT step, "time", compute, metrics FROM runs_record
    WHERE run_id = %(run)s AND attempt = new.attempt AND seq = new.seq LIMIT 1
) AS old
WHERE (old.step, old."time", old.compute, old.metrics) <> (new.step, new."time", new.compute, new.metrics)
ORDER BY position LIMIT 1
"""
MAX_REASON = 1000


def note_records(run: Run, records: Sequence[Record]) -> None:
    """Bring the summary up to date with records that were just stored."""
    place = attrgetter("attempt", "seq")
    newest = max(records, key=place)
    is_so = run.meaning.keys().isdisjoint(("pass_rate", "percent"))  # else the next refit knows them
    rates = [record for record in records if is_so and record.metrics.get(PASS_RATE) is not None]
    rates.sort(key=place)
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


def thinned(values: Sequence[float | None], points: int = SPARK_POINTS) -> list[float | None]:
    """Some `points` evenly picked values, the last among them."""
    stride = (len(values) + points - 1) // points or 1
    return [value for i, value in enumerate(values) if i % stride == 0 or i == len(values) - 1]


@dataclass(frozen=True)
class IngestResult:
    """How many records of a batch were new, how many were stored already, and how many names were one too many."""

    accepted: int
    duplicates: int
    names_left_out: int = 0


@transaction.atomic
def store_records(run: Run, records: Sequence[Record], *, reporter: int | None = None) -> IngestResult:
    """Store a batch: records, series and points. (run, attempt, seq) makes a repeated record harmless. An empty batch
    says that the trainer lives. `reporter`: the attempt that sends it, where that is known; an earlier one than the
    run's current attempt is no sign of life of it.

    What a single record may hold, `training.records.Record` has checked. Raises InvalidInput for a batch that is
    too long or an attempt that the run does not have, and Conflict where a stored (attempt, seq) comes again with
    other content; both name records.<i>. On an error nothing is stored. Wishes a refit where evaluations are new.
    """
    # One writer a run at a time: parallel batches cannot deadlock over series and points.
    if (current := _HELD.first(run=run.pk)) is None:
        raise NotFound(f"There is no run {run.pk}.")
    return store_held(current, records, reporter=reporter)


def store_held(run: Run, records: Sequence[Record], *, reporter: int | None = None) -> IngestResult:
    """The same of a run that this transaction has locked and read, and has not changed since."""
    began = time.perf_counter()
    if run.deleted_at is not None:
        raise NotFound(f"There is no run {run.pk}.")
    if len(records) > MAX_RECORDS:
        raise InvalidInput(
            "records", f"records must have at most {MAX_RECORDS:,} items, not {len(records):,}."
        )
    unique = _without_repeats(records)
    first_uses = {record.attempt: f"records.{i}.attempt" for i, record in reversed(unique)}
    ensure_attempts(run, first_uses)
    accepted, has_evaluations, left_out = _insert(run, unique)
    has_evaluations |= accepted > 0 and mean_incoming(run)
    if accepted < len(unique):
        _refuse_other_content(run)
    if accepted:
        note_records(run, [record for _, record in unique])
    newest = max((record.attempt for _, record in unique), default=run.attempt_number)
    speaks = (newest if reporter is None else reporter) >= run.attempt_number
    _note_report(run, new=accepted > 0, refit=has_evaluations, speaks=speaks)
    result = IngestResult(accepted, len(records) - accepted, left_out)
    if records:
        transaction.on_commit(partial(_count, result, unique, began), robust=True)
    return result


_HELD = Compiled(
    lambda run: Run.objects.select_for_update().filter(pk=run).order_by().defer("config", "notes"),
    run="an id",
)


def _count(result: IngestResult, unique: Sequence[tuple[int, Record]], began: float) -> None:
    points = sum(1 for _, record in unique for _ in _series_names(record))
    metrics.note_batch(result.accepted, result.duplicates, points, time.perf_counter() - began)


def _without_repeats(records: Sequence[Record]) -> list[tuple[int, Record]]:
    """(position, record) without a batch's own repetitions. Raises Conflict where one has other content."""
    seen: dict[tuple[int, int], Record] = {}
    unique = []
    for i, record in enumerate(records):
        first = seen.setdefault((record.attempt, record.seq), record)
        if first is record:
            unique.append((i, record))
        elif first != record:
            raise _conflict(i, record.attempt, record.seq)
    return unique


def _insert(run: Run, unique: Sequence[tuple[int, Record]]) -> tuple[int, bool, int]:
    """How many records were new, whether there are evaluations among them, and how many names got no series."""
    left_out = 0
    metric_names = sorted({name for _, record in unique for name in _series_names(record)})
    with connection.cursor() as cursor:
        cursor.execute(EMPTY_INCOMING, {"run": run.pk, "names": metric_names})
        while cursor.nextset():
            pass
        missing = [name for (name,) in cursor.fetchall()]
        with cursor.copy(COPY_INCOMING) as copy:
            for row in _rows(unique):
                copy.write_row(row)
        if missing:
            values: dict[str, Any] = {"run": run.pk, "names": missing, "always": PASS_RATE, "system": SYSTEM}
            cursor.execute(INSERT_SERIES, values)
            (left_out,) = cursor.fetchone()
        cursor.execute(INSERT_RECORDS_AND_POINTS, {"run": run.pk})
        (accepted,) = cursor.fetchone()
    return accepted, accepted > 0 and any(is_pass_rate(name) for name in metric_names), left_out


def _rows(unique: Sequence[tuple[int, Record]]) -> Iterator[tuple]:
    for i, record in unique:
        compute = json.dumps(record.compute.__dict__)
        yield i, record.attempt, record.seq, record.step, record.time, compute, json.dumps(record.metrics)


def _series_names(record: Record) -> Iterator[str]:
    metrics = record.metrics
    for name, value in metrics.items():
        if value is not None and not (name.endswith("_stderr") and name[: -len("_stderr")] in metrics):
            yield name


def _refuse_other_content(run: Run) -> None:
    with connection.cursor() as cursor:
        cursor.execute(FIND_CONFLICT, {"run": run.pk})
        if (row := cursor.fetchone()) is None:
            return
        cursor.execute("SELECT attempt, seq FROM incoming_record WHERE position = %s", row)
        raise _conflict(row[0], *cursor.fetchone())


def _conflict(position: int, attempt: int, seq: int) -> Conflict:
    field = f"records.{position}"
    message = f"{field}: attempt {attempt}, seq {seq} was reported before with other content."
    return Conflict(message, field=field)


def _note_report(run: Run, *, new: bool, refit: bool, speaks: bool) -> None:
    """The trainer lives: heartbeat, and running if it only was starting or lost; new records make a new version."""
    now = timezone.now()
    fields: dict[str, Any] = {"heartbeat_at": now} if speaks else {}
    if refit:
        fields["refit_wanted_at"] = run.refit_wanted_at or now  # of the first evaluation that waits
        task_queue.send(names.REFIT, run.pk)
    if new and run.alarms_wanted_at is None:  # else a worker is coming already
        fields["alarms_wanted_at"] = now
        task_queue.send(names.ALARMS, run.pk)
    if speaks and run.state in LEAVES[State.RUNNING] and (new or run.state == State.LOST):
        fields["started_at"] = run.started_at or now
        if move(run, State.RUNNING, attempt=run.attempt_number, part=DRIVER, **fields):
            return
    if new:
        fields["version"] = F("version") + 1
    if fields:
        Run.objects.filter(pk=run.pk).update(**fields)


@dataclass(frozen=True)
class Refused:
    """`records`: nothing of them is stored; `values`: left out of others; `reason`: of the newest, in words."""

    records: int = 0
    values: int = 0
    reason: str = ""

    @property
    def words(self) -> str:
        """A sentence for the run's page; empty where there is nothing."""
        counted = ((self.records, "record"), (self.values, "value"))
        parts = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counted if count]
        if not parts:
            return ""
        verb = "is" if self.records + self.values == 1 else "are"
        reason = f", the newest because: {self.reason}" if self.reason else ""
        return f"{' and '.join(parts)} that its trainer logged {verb} not stored{reason}"


@transaction.atomic
def note_refused(
    run: Run, *, attempt: int, refused_records: int, refused_values: int, reason: str = ""
) -> Run:
    """So much of what the attempt logged is not stored by now. Safe to repeat, in any order: counts never shrink.

    Raises InvalidInput (attempt) where the run has no such attempt.
    """
    ensure_attempts(run, {attempt: "attempt"})
    run = Run.objects.select_for_update().get(pk=run.pk)
    before = _of(run, str(attempt))
    counts = max(before.records, refused_records), max(before.values, refused_values)
    if counts != (before.records, before.values):
        now = Refused(*counts, redact(run.project_id, reason.replace("\0", ""))[:MAX_REASON])
        run.refused = run.refused | {str(attempt): asdict(now)}
        bump(run.pk, refused=run.refused)
    return run


def refused_of(run: Run) -> Refused:
    """Of all attempts together, with the reason of the last."""
    each = [_of(run, attempt) for attempt in sorted(run.refused, key=int)]
    reason = each[-1].reason if each else ""
    return Refused(sum(one.records for one in each), sum(one.values for one in each), reason)


def _of(run: Run, attempt: str) -> Refused:
    return Refused(**run.refused.get(attempt, {}))
