"""What the metrics of a run mean that trains elsewhere: which one is the held-out pass rate, which its standard error,
which the compute, in which unit, and on how many devices it trains.

Its trainer knows neither Headroom's names nor device-hours. Records stay as they were reported; what follows from their
meaning is in the points: those of eval/pass_rate, and their compute. A request makes at most AT_ONCE of them anew; what
is more the worker makes, some records at a time (`Run.remaking`).
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from webapp.base import task_queue
from webapp.base.compiled import rows_of
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import User
from webapp.record.runs.models import Point, Run, Series
from webapp.record.runs.selectors import PASS_RATE, stored_name
from webapp.record.runs.states import bump, record_run
from worker import names

MOST_PROMPTS, MOST_DEVICES = 10**9, 10**6

# Devices x the time since the attempt's first record, after what the attempts before it took up to where it resumed.
# Of each attempt two records are looked at, however long it is.
_SPANS = """
WITH span AS (
    SELECT a.number, first.time AS since, greatest(0, extract(epoch FROM last.time - first.time)) AS lasted
    FROM runs_attempt AS a
    JOIN LATERAL (
        SELECT r.time FROM runs_record AS r WHERE r.run_id = a.run_id AND r.attempt = a.number ORDER BY r.seq LIMIT 1
    ) AS first ON true
    LEFT JOIN runs_attempt AS next ON next.run_id = a.run_id AND next.number = a.number + 1
    JOIN LATERAL (
        SELECT r.time FROM runs_record AS r WHERE r.run_id = a.run_id AND r.attempt = a.number
            AND (next.resumed_from_step IS NULL OR r.step <= next.resumed_from_step)
        ORDER BY r.seq DESC LIMIT 1
    ) AS last ON true
    WHERE a.run_id = %(run)s
), begun AS (
    SELECT number, since, coalesce(sum(lasted) OVER (
        ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS seconds_before FROM span
)
"""
_FILL_HOURS = """
UPDATE runs_point AS p SET device_hours = found.hours
FROM (
    SELECT one.id, %(devices)s / 3600.0 * (
        begun.seconds_before + greatest(0, extract(epoch FROM one.time - begun.since))) AS hours
    FROM {rows} AS r JOIN begun ON begun.number = r.attempt JOIN runs_series AS s ON s.run_id = %(run)s {of}
    {one}
    WHERE r.compute -> 'device_hours' = 'null'
) AS found WHERE p.id = found.id
"""
# A compute that a metric holds, as last reported in the attempt, 0 before that at step 0; it goes before what the
# record says of itself. One pass over records and values in their order, whatever PostgreSQL knows of the table.
_FILL_AXIS = """
WITH wanted AS MATERIALIZED (SELECT r.attempt, r.seq, r.step FROM {rows} AS r), ends AS MATERIALIZED (
    SELECT said.id, one.attempt, one.last, coalesce((
        SELECT max(seq) FROM runs_point
        WHERE series_id = said.id AND attempt = one.attempt AND seq < one.first AND value >= 0
    ), one.first) AS first
    FROM runs_series AS said
    CROSS JOIN (SELECT attempt, min(seq) AS first, max(seq) AS last FROM wanted GROUP BY attempt) AS one
    WHERE said.run_id = %(run)s AND said.metric = %({axis})s
), filled AS MATERIALIZED (
    SELECT attempt, seq, step, max(value) OVER (PARTITION BY attempt, place) AS value FROM (
        SELECT *, count(value) OVER (PARTITION BY attempt ORDER BY seq, step IS NOT NULL) AS place FROM (
            SELECT wanted.*, NULL::float8 AS value FROM wanted WHERE EXISTS (SELECT 1 FROM ends)
            UNION ALL
            SELECT m.attempt, m.seq, NULL, m.value FROM ends JOIN runs_point AS m ON m.series_id = ends.id
                AND m.attempt = ends.attempt AND m.seq BETWEEN ends.first AND ends.last AND m.value >= 0
        ) AS each
    ) AS placed
)
UPDATE runs_point AS p SET {axis} = found.value
FROM (
    SELECT one.id, coalesce(r.value, 0) AS value FROM filled AS r JOIN runs_series AS s ON s.run_id = %(run)s {of}
    {one}
    WHERE r.step = 0 OR r.step IS NOT NULL AND r.value IS NOT NULL
) AS found WHERE p.id = found.id
"""
# Of an evaluation and its compute that were logged one after the other at one step.
_FILL_AXIS_OF_STEP = """
UPDATE runs_point AS p SET {axis} = m.value
FROM {rows} AS r
JOIN runs_series AS said ON said.run_id = %(run)s AND said.metric = %({axis})s
JOIN runs_series AS rate ON rate.run_id = said.run_id AND rate.metric = %(rate)s
CROSS JOIN LATERAL (
    SELECT value FROM runs_point WHERE series_id = said.id AND attempt = r.attempt AND seq = r.seq LIMIT 1
) AS m
WHERE p.series_id = rate.id AND p.attempt = r.attempt AND p.step = r.step AND m.value >= 0
"""
# What a run reports by our own name, where another metric is its pass rate.
_DROP_RATES = """
DELETE FROM runs_point AS p USING {rows} AS r, runs_series AS s
WHERE s.run_id = %(run)s AND s.metric = %(rate)s AND p.series_id = s.id AND p.attempt = r.attempt AND p.seq = r.seq
"""
# A value that is no rate is none. Of a mean alone the error is the most that independent prompts can have.
_ADD_RATES = """
INSERT INTO runs_point (series_id, attempt, seq, step, "time", device_hours, flops, tokens, value, stderr)
SELECT rate.id, p.attempt, p.seq, p.step, p.time, p.device_hours, p.flops, p.tokens, share.value,
    coalesce(p.stderr / %(unit)s, sqrt(share.value * (1 - share.value) / %(n_prompts)s::float8))
FROM {rows} AS r
JOIN runs_series AS said ON said.run_id = %(run)s AND said.metric = %(pass_rate)s
JOIN runs_series AS rate ON rate.run_id = said.run_id AND rate.metric = %(rate)s
CROSS JOIN LATERAL (
    SELECT * FROM runs_point WHERE series_id = said.id AND attempt = r.attempt AND seq = r.seq LIMIT 1
) AS p
CROSS JOIN LATERAL (SELECT p.value / %(unit)s AS value) AS share
WHERE share.value BETWEEN 0 AND 1
ON CONFLICT (series_id, attempt, seq) DO NOTHING
"""
# Of a run that reports the rate by our own name: as it was reported, in its unit.
_TAKE_REPORTED_RATES = """
INSERT INTO runs_point (series_id, attempt, seq, step, "time", device_hours, flops, tokens, value, stderr)
SELECT s.id, r.attempt, r.seq, r.step, r.time, nullif(r.compute -> 'device_hours', 'null')::float8,
    nullif(r.compute -> 'flops', 'null')::float8, nullif(r.compute -> 'tokens', 'null')::float8,
    (r.metrics -> %(rate)s)::float8 / %(unit)s, nullif(r.metrics -> %(rate_stderr)s, 'null')::float8 / %(unit)s
FROM {rows} AS r JOIN runs_series AS s ON s.run_id = %(run)s AND s.metric = %(rate)s
WHERE coalesce(r.metrics -> %(rate)s, 'null') <> 'null'
ON CONFLICT (series_id, attempt, seq) DO UPDATE SET value = excluded.value, stderr = excluded.stderr
"""
# All evaluations each time: the error of one may come in a later batch.
_SET_ERRORS = """
UPDATE runs_point AS p SET stderr = error.value / %(unit)s
FROM runs_series AS rate, (
    SELECT DISTINCT ON (e.attempt, e.step) e.attempt, e.step, e.value
    FROM runs_series AS said JOIN runs_point AS e ON e.series_id = said.id
    WHERE said.run_id = %(run)s AND said.metric = %(stderr)s AND e.value >= 0
    ORDER BY e.attempt, e.step, e.seq DESC
) AS error
WHERE rate.run_id = %(run)s AND rate.metric = %(rate)s AND p.series_id = rate.id
    AND p.attempt = error.attempt AND p.step = error.step AND p.stderr IS DISTINCT FROM error.value / %(unit)s
"""
_FORGET_COMPUTE = """
UPDATE runs_point AS p SET
    device_hours = nullif(found.compute -> 'device_hours', 'null')::float8,
    flops = nullif(found.compute -> 'flops', 'null')::float8,
    tokens = nullif(found.compute -> 'tokens', 'null')::float8
FROM (
    SELECT one.id, r.compute FROM {rows} AS r JOIN runs_series AS s ON s.run_id = %(run)s {of}
    {one}
) AS found WHERE p.id = found.id
"""
# The point of a series `s` of a record `r`: looked up, where records are few beside the points, or found in one join.
LOOKED_UP = """CROSS JOIN LATERAL (
    SELECT id, time FROM runs_point WHERE series_id = s.id AND attempt = r.attempt AND seq = r.seq LIMIT 1
) AS one"""
JOINED = "JOIN runs_point AS one ON one.series_id = s.id AND one.attempt = r.attempt AND one.seq = r.seq"
# What PostgreSQL believes of a table that has doubled since, or that it took for empty.
STALE = """
SELECT relname FROM pg_class WHERE oid IN ('runs_point'::regclass, 'runs_record'::regclass)
    AND (reltuples < pg_relation_size(oid) / 8192 OR pg_relation_size(oid) / 8192 > 2 * relpages + 8)
"""
STORED = "(SELECT * FROM runs_record WHERE run_id = %(run)s)"
# In the order of arrival, as the index has it.
PART = "(SELECT * FROM runs_record WHERE run_id = %(run)s AND id + 0 > %(after)s AND id + 0 <= %(last)s)"
LAST_OF_PART = """
SELECT max(id) FROM (SELECT id FROM runs_record WHERE run_id = %s AND id + 0 > %s ORDER BY id + 0 LIMIT %s) AS part
"""
NOTHING = "(SELECT * FROM runs_record WHERE false)"
# Of a preview: the records that hold an evaluation; only the points of the curve are made.
EVALUATED = """
SELECT r.id FROM runs_record AS r WHERE r.run_id = %(run)s AND (r.metrics ? %(rate)s OR EXISTS (
    SELECT FROM runs_series AS s JOIN runs_point AS p ON p.series_id = s.id
    WHERE s.run_id = %(run)s AND s.metric = %(pass_rate)s AND p.attempt = r.attempt AND p.seq = r.seq
)) LIMIT %(most)s
"""
PICKED = "(SELECT * FROM runs_record WHERE run_id = %(run)s AND id = ANY(%(picked)s))"
OF_CURVE = "AND s.metric IN (%(rate)s, %(pass_rate)s)"
AT_ONCE = 50_000  # points: about 2 s
MOST_PREVIEWED = 20_000  # evaluations of a run with more points
RECORDS_AT_ONCE = 200  # of the worker, which holds the run meanwhile
WORKER_SECONDS = 5.0
IN_BACKGROUND = "Its points are being made anew, as its metrics were said to mean: try again in a minute."
INCOMING = "incoming_record"  # of the batch that is being stored: `webapp.record.runs.ingest`


@dataclass(frozen=True)
class Meaning:
    """`pass_rate`: name of the metric that is the held-out pass rate; empty: eval/pass_rate. `stderr`: of the one that
    is its standard error, at the same step. `percent`: both are in percent. `n_prompts`: of each evaluation, for a
    standard error that is not reported. `devices`: on how many it trains; None: not known. `device_hours`, `flops`,
    `tokens`: names of the metrics that hold the compute used so far; empty: what records say of it."""

    pass_rate: str = ""
    stderr: str = ""
    percent: bool = False
    n_prompts: int | None = None
    devices: float | None = None
    device_hours: str = ""
    flops: str = ""
    tokens: str = ""


COMPUTE = ("device_hours", "flops", "tokens")
METRICS = ("pass_rate", "stderr", *COMPUTE)  # fields that name a metric
OF_RATE = ("pass_rate", "stderr", "percent", "n_prompts")


def meaning_of(run: Run) -> Meaning:
    """What was said of the run; nothing by default."""
    return Meaning(**run.meaning)


@transaction.atomic
def state_meaning(run: Run, meaning: Meaning, *, user: User | None, at_once: int = AT_ONCE) -> Run:
    """Say what the run's metrics mean, or say it anew: the points that follow are made anew, and it is refitted.
    Metrics may be named as the trainer calls them. Where the run has more than `at_once` points, the worker does it.

    Raises InvalidInput (the field at fault), and Conflict
    for a run that was launched here, or that an open prediction is about.
    """
    _know_tables()
    run = Run.objects.select_for_update().get(pk=run.pk)
    meaning, said = _checked_as_said(run, meaning)
    remaking = {"undo": sorted(_made(run)), "after": 0} if has_more_points(run, at_once) else None
    if remaking is None:
        _remake(run, _made(run), meaning, STORED)
    bump(run.pk, meaning=said, remaking=remaking, refit_wanted_at=timezone.now())
    run.refresh_from_db()
    task_queue.send(names.REFIT, run.pk)
    record_run("run.meaning_stated", run, user, **said)
    return run


def remake_points(run_id: str) -> bool:
    """The worker's part of `state_meaning`, for `WORKER_SECONDS`: whether all is done. Safe to repeat, and to interrupt
    anywhere."""
    until = time.monotonic() + WORKER_SECONDS
    while not (done := _remake_part(run_id)) and time.monotonic() < until:
        pass
    return done


@transaction.atomic
def _remake_part(run_id: str) -> bool:
    run = Run.objects.select_for_update().filter(pk=run_id).first()
    if run is None or run.remaking is None:
        return True
    after, undo = run.remaking["after"], run.remaking["undo"]
    ((last,),) = rows_of(LAST_OF_PART, [run.pk, after, RECORDS_AT_ONCE])
    meaning, remaking = meaning_of(run), None
    if last is None:
        _apply(run, meaning, NOTHING)  # the errors
    else:
        remaking = {"undo": undo, "after": last}
        _remake(run, undo, replace(meaning, stderr=""), PART, after=after, last=last)
    bump(run.pk, remaking=remaking)
    return last is None


@contextmanager
def as_if_said(run: Run, meaning: Meaning) -> Iterator[Run]:
    """Inside it the run's evaluations are as they would be if this were said, and so are its other points, unless it
    has more than AT_ONCE; afterwards everything is as it was. Raises what `state_meaning` raises, but for permissions,
    and Conflict for more than MOST_PREVIEWED evaluations of such a run."""
    with transaction.atomic():
        _know_tables()
        held = Run.objects.select_for_update().get(pk=run.pk)
        meaning, said = _checked_as_said(held, meaning)
        if has_more_points(held, AT_ONCE):
            _remake_curve(held, meaning)
        else:
            _remake(held, _made(held), meaning, STORED)
        held.meaning = said
        yield held
        transaction.set_rollback(True)


def _remake_curve(run: Run, meaning: Meaning) -> None:
    """Of a preview: the evaluations alone, by the records that hold one."""
    undo = _made(run)
    values = _constants(run, 1.0) | {"pass_rate": meaning.pass_rate, "most": MOST_PREVIEWED + 1}
    picked = [pk for (pk,) in rows_of(EVALUATED, values)]
    if len(picked) > MOST_PREVIEWED:
        raise Conflict(
            f"This run has more than {MOST_PREVIEWED:,} evaluations: what follows cannot be shown before. Save it; its "
            "curve follows in a minute, and what was said before can be said again."
        )
    if undo & {*OF_RATE}:  # made of records that may not be among those picked
        Point.objects.filter(series__run=run, series__metric=PASS_RATE).delete()
    _remake(run, undo, meaning, PICKED, OF_CURVE, picked=picked)


def has_more_points(run: Run, most: int) -> bool:
    """No more of them are counted than it takes."""
    return Point.objects.filter(series__run=run).order_by().values("pk")[: most + 1].count() > most


def _checked_as_said(run: Run, meaning: Meaning) -> tuple[Meaning, dict[str, Any]]:
    """With the names under which its metrics are stored, and what is to be stored of it."""
    if run.origin != Run.Origin.TRACKED:
        raise Conflict("This run was launched here; its trainer says what its metrics are.")
    meaning = _checked(run, meaning)
    said = {name: value for name, value in asdict(meaning).items() if value}
    if said != run.meaning and _is_predicted(run):
        raise Conflict(
            "A prediction about this run is open: it was made for its points as they are. Withdraw it first."
        )
    return meaning, said


def _made(run: Run) -> set[str]:
    """The fields that some of its points follow from."""
    return {*run.meaning, *(run.remaking["undo"] if run.remaking else ())}


def mean_incoming(run: Run) -> bool:
    """Part of the storing of a batch: points that follow from it. True where it may have brought evaluations."""
    if not run.meaning:
        return False
    _apply(run, meaning_of(run), INCOMING)
    return any(name in run.meaning for name in (*METRICS, "percent"))


def _apply(run: Run, meaning: Meaning, rows: str, of: str = "", **bounds: Any) -> None:
    values = _constants(run, 100.0 if meaning.percent else 1.0) | asdict(meaning) | bounds
    axes = [axis for axis in COMPUTE if values[axis]]
    statements = [_SPANS + _FILL_HOURS] if meaning.devices is not None else []
    statements += [_FILL_AXIS.replace("{axis}", axis) for axis in axes]
    if meaning.pass_rate:
        Series.objects.get_or_create(run=run, metric=PASS_RATE)
        statements += [_DROP_RATES, _ADD_RATES]
    elif meaning.percent:
        statements.append(_TAKE_REPORTED_RATES)
    statements += [_FILL_AXIS_OF_STEP.replace("{axis}", axis) for axis in axes]
    if meaning.stderr:
        statements.append(_SET_ERRORS)
    _execute(statements, rows, of, values)


def _execute(statements: Iterable[str], rows: str, of: str, values: Mapping[str, Any]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(_filled(statement, rows, of), values)


def _filled(statement: str, rows: str, of: str) -> str:
    return statement.format(rows=rows, of=of, one=JOINED if rows is STORED else LOOKED_UP)


def _know_tables() -> None:
    """Of a table that PostgreSQL takes for empty it joins every row with every other: let it look first."""
    with connection.cursor() as cursor:
        cursor.execute(STALE)
        for (name,) in cursor.fetchall():
            cursor.execute(f"ANALYZE (SKIP_LOCKED) {name}")


def _constants(run: Run, unit: float) -> dict[str, Any]:
    return {"run": run.pk, "rate": PASS_RATE, "rate_stderr": f"{PASS_RATE}_stderr", "unit": unit}


def _remake(
    run: Run, undo: Collection[str], meaning: Meaning, rows: str, of: str = "", **bounds: Any
) -> None:
    """What an earlier meaning has made goes, but what was reported; what follows from this one comes. `rows`: records;
    `of`: bounds the series s whose compute is worked out."""
    values = _constants(run, 1.0) | {"pass_rate": meaning.pass_rate} | bounds
    statements = [_DROP_RATES, _TAKE_REPORTED_RATES] if {*undo} & {*OF_RATE} else []
    statements += [_FORGET_COMPUTE] if {*undo} & {"devices", *COMPUTE} else []
    _execute(statements, rows, of, values)
    _apply(run, meaning, rows, of, **bounds)


def _checked(run: Run, meaning: Meaning) -> Meaning:
    """With the names under which its metrics are stored."""
    if meaning.devices is not None and not 0 < meaning.devices <= MOST_DEVICES:
        raise InvalidInput("devices", f"The number of devices is above 0 and at most {MOST_DEVICES:,}.")
    if meaning.n_prompts is not None and not 0 < meaning.n_prompts <= MOST_PROMPTS:
        raise InvalidInput("n_prompts", f"The number of prompts is between 1 and {MOST_PROMPTS:,}.")
    found: dict[str, Any] = {
        name: _known(run, name, given) for name in METRICS if (given := getattr(meaning, name))
    }
    if found.get("pass_rate") == PASS_RATE:
        found["pass_rate"] = ""  # which it is unless another one is named
    meaning = replace(meaning, **found)
    most = 100 if meaning.percent else 1
    in_words = "a percentage is between 0 and 100" if meaning.percent else "a pass rate is between 0 and 1"
    rate = meaning.pass_rate or (PASS_RATE if meaning.percent else "")
    if rate:
        _check_values(run, "pass_rate", rate, Q(value__range=(0, most)), in_words)
    for name in ("stderr", *COMPUTE):
        if getattr(meaning, name):
            _check_values(run, name, getattr(meaning, name), Q(value__gte=0), "it cannot be below 0")
    return meaning


def _known(run: Run, field: str, given: str) -> str:
    if (found := stored_name(run, given)) is None:
        raise InvalidInput(field, f"This run has no metric {given[:250]}.")
    return found


def _check_values(run: Run, field: str, metric: str, holds: Q, in_words: str) -> None:
    points = Point.objects.filter(series__run=run, series__metric=metric)
    if (outside := points.exclude(holds).order_by("attempt", "seq").first()) is not None:
        hint = ", unless it is in percent" if "and 1" in in_words and outside.value > 1 else ""
        raise InvalidInput(field, f"{metric} is {outside.value:g} at step {outside.step}: {in_words}{hint}.")


def _is_predicted(run: Run) -> bool:
    """Whether other points would be another question than the one that somebody has answered."""
    still = Q(withdrawn_at=None, replaced_by=None, outcomes=None)
    return run.predictions.filter(still).exists() or run.rival_predictions.filter(still).exists()
