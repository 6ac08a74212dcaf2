"""Storing what trainers report: one COPY a batch, whatever its size; all of it or nothing.

PostgreSQL takes the records apart into points, so a value crosses Python once and as text.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from headroom.adapters.naming import SYSTEM
from training.records import Record
from webapp.base import metrics, nudge
from webapp.base.compiled import Compiled
from webapp.base.errors import Conflict, InvalidInput, NotFound
from webapp.record.runs.lifecycle import ensure_attempts
from webapp.record.runs.meaning import mean_incoming
from webapp.record.runs.models import Run, State
from webapp.record.runs.selectors import PASS_RATE, is_pass_rate
from webapp.record.runs.states import DRIVER, LEAVES, move
from webapp.record.runs.summaries import note_records
from worker import names

MAX_RECORDS = 5000

# Kept for the connection's life, emptied by each commit, so that a batch does not grow the system catalogue. Emptied of
# an earlier batch in this very transaction, too.
EMPTY_INCOMING = """
CREATE TEMPORARY TABLE IF NOT EXISTS incoming_record (
    position integer, attempt integer, seq bigint, step bigint, "time" timestamptz, compute jsonb, metrics jsonb
) ON COMMIT DELETE ROWS;
DELETE FROM incoming_record
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
), made AS (
    INSERT INTO runs_series (run_id, metric)
    SELECT %(run)s, name FROM missing WHERE name = %(always)s OR place <= (
        SELECT max_metrics FROM accounts_project JOIN runs_run ON project_id = accounts_project.id
        WHERE runs_run.id = %(run)s
    ) - (SELECT count(*) FROM runs_series WHERE run_id = %(run)s AND starts_with(metric, %(system)s) = is_system)
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
    began = time.perf_counter()
    if len(records) > MAX_RECORDS:
        raise InvalidInput("records", f"records must have at most {MAX_RECORDS} items, not {len(records)}.")
    unique = _without_repeats(records)
    # One writer a run at a time: parallel batches cannot deadlock over series and points.
    current = _HELD.first(run=run.pk)
    if current is None:
        raise NotFound(f"There is no run {run.pk}.")
    ensure_attempts(current, _first_uses(unique))
    accepted, has_evaluations, left_out = _insert(current, unique)
    has_evaluations |= accepted > 0 and mean_incoming(current)
    if accepted < len(unique):
        _refuse_other_content(current)
    if accepted:
        note_records(current, [record for _, record in unique])
    newest = max((record.attempt for _, record in unique), default=current.attempt_number)
    speaks = (newest if reporter is None else reporter) >= current.attempt_number
    _note_report(current, new=accepted > 0, refit=has_evaluations, speaks=speaks)
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


def _first_uses(unique: Sequence[tuple[int, Record]]) -> dict[int, str]:
    """Attempt -> the field of the first record that names it."""
    uses: dict[int, str] = {}
    for i, record in unique:
        uses.setdefault(record.attempt, f"records.{i}.attempt")
    return uses


def _insert(run: Run, unique: Sequence[tuple[int, Record]]) -> tuple[int, bool, int]:
    """How many records were new, whether there are evaluations among them, and how many names got no series."""
    left_out = 0
    metric_names = sorted({name for _, record in unique for name in _series_names(record)})
    with connection.cursor() as cursor:
        cursor.execute(EMPTY_INCOMING)
        with cursor.copy(COPY_INCOMING) as copy:
            for row in _rows(unique):
                copy.write_row(row)
        if metric_names:
            values: dict[str, Any] = {
                "run": run.pk,
                "names": metric_names,
                "always": PASS_RATE,
                "system": SYSTEM,
            }
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
        row = cursor.fetchone()
        if row is None:
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
        nudge.send(names.REFIT, run.pk)
    if new and run.alarms_wanted_at is None:  # else a worker is coming already
        fields["alarms_wanted_at"] = now
        nudge.send(names.ALARMS, run.pk)
    if speaks and run.state in LEAVES[State.RUNNING] and (new or run.state == State.LOST):
        fields["started_at"] = run.started_at or now
        if move(run, State.RUNNING, attempt=run.attempt_number, part=DRIVER, **fields):
            return
    if new:
        fields["version"] = F("version") + 1
    if fields:
        Run.objects.filter(pk=run.pk).update(**fields)
