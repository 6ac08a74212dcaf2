"""What the metrics of a run mean that trains elsewhere: which one is the held-out pass rate, and on how many devices it
trains.

Its trainer knows neither Headroom's names nor device-hours. Records stay as they were reported; what follows from their
meaning is in the points: those of eval/pass_rate, and device-hours where the record has none.
"""

from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from webapp.base import nudge
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import User
from webapp.identity.accounts.permissions import Permission, require
from webapp.identity.audit.services import record
from webapp.record.runs.models import Point, Run, Series
from webapp.record.runs.selectors import PASS_RATE
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
    FROM {rows} AS r JOIN begun ON begun.number = r.attempt JOIN runs_series AS s ON s.run_id = %(run)s
    CROSS JOIN LATERAL (
        SELECT id, time FROM runs_point WHERE series_id = s.id AND attempt = r.attempt AND seq = r.seq LIMIT 1
    ) AS one
    WHERE r.compute -> 'device_hours' = 'null'
) AS found WHERE p.id = found.id
"""
# A value that is no rate is none. Of a mean alone the error is the most that independent prompts can have.
_ADD_RATES = """
INSERT INTO runs_point (series_id, attempt, seq, step, "time", device_hours, flops, tokens, value, stderr)
SELECT rate.id, p.attempt, p.seq, p.step, p.time, p.device_hours, p.flops, p.tokens, p.value,
    coalesce(p.stderr, sqrt(p.value * (1 - p.value) / %(n_prompts)s::float8))
FROM {rows} AS r
JOIN runs_series AS said ON said.run_id = %(run)s AND said.metric = %(pass_rate)s
JOIN runs_series AS rate ON rate.run_id = said.run_id AND rate.metric = %(rate)s
CROSS JOIN LATERAL (
    SELECT * FROM runs_point WHERE series_id = said.id AND attempt = r.attempt AND seq = r.seq LIMIT 1
) AS p
WHERE p.value BETWEEN 0 AND 1
ON CONFLICT (series_id, attempt, seq) DO NOTHING
"""
_REPORTED = """
FROM runs_series AS s, runs_record AS r
WHERE s.run_id = %(run)s AND p.series_id = s.id AND r.run_id = s.run_id AND r.attempt = p.attempt AND r.seq = p.seq
"""
_FORGET_HOURS = f"""
UPDATE runs_point AS p SET device_hours = NULL {_REPORTED} AND r.compute -> 'device_hours' = 'null'
"""  # nosec B608  # constants
_FORGET_RATES = f"""
DELETE FROM runs_point AS p USING {_REPORTED.split("FROM", 1)[1]}
    AND s.metric = %(rate)s AND coalesce(r.metrics -> %(rate)s, 'null') = 'null'
"""  # nosec B608  # constants
STORED = "(SELECT * FROM runs_record WHERE run_id = %(run)s)"
INCOMING = "incoming_record"  # of the batch that is being stored: `webapp.record.runs.ingest`


@dataclass(frozen=True)
class Meaning:
    """`pass_rate`: name of the metric that is the held-out pass rate; empty: eval/pass_rate alone. `n_prompts`: of each
    evaluation, for its standard error. `devices`: on how many it trains; None: not known."""

    pass_rate: str = ""
    n_prompts: int | None = None
    devices: float | None = None


def meaning_of(run: Run) -> Meaning:
    """What was said of the run; nothing by default."""
    return Meaning(**run.meaning)


@transaction.atomic
def state_meaning(run: Run, meaning: Meaning, *, user: User | None) -> Run:
    """Say what the run's metrics mean, or say it anew: the points that follow are made anew, and it is refitted.

    A person needs CONTRIBUTE. Raises Forbidden or NotFound without it, InvalidInput (pass_rate, n_prompts, devices),
    and Conflict for a run that was launched here, that reports eval/pass_rate itself, or that an open prediction is
    about.
    """
    if user is not None:
        require(user, run.project, Permission.CONTRIBUTE)
    run = Run.objects.select_for_update().get(pk=run.pk)
    if run.origin != Run.Origin.TRACKED:
        raise Conflict("This run was launched here; its trainer says what its metrics are.")
    _check(run, meaning)
    said = {name: value for name, value in asdict(meaning).items() if value}
    if said != run.meaning and _is_predicted(run):
        raise Conflict(
            "A prediction about this run is open: it was made for its points as they are. Withdraw it first."
        )
    _forget(run)
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(meaning=said, refit_wanted_at=now, version=F("version") + 1)
    run.refresh_from_db()
    _apply(run, STORED)
    nudge.send(names.REFIT, run.pk)
    record(
        "run.meaning_stated", actor=user, project=run.project, kind="run", key=run.pk, name=run.name, **said
    )
    return run


def mean_incoming(run: Run) -> bool:
    """Part of the storing of a batch: points that follow from it. True where it may have brought evaluations."""
    if not run.meaning:
        return False
    _apply(run, INCOMING)
    return bool(run.meaning.get("pass_rate"))


def _apply(run: Run, rows: str) -> None:
    meaning = meaning_of(run)
    values: dict[str, Any] = {"run": run.pk, "rate": PASS_RATE, **asdict(meaning)}
    with connection.cursor() as cursor:
        if meaning.devices is not None:
            cursor.execute(_SPANS + _FILL_HOURS.format(rows=rows), values)
        if meaning.pass_rate:
            Series.objects.get_or_create(run=run, metric=PASS_RATE)
            cursor.execute(_ADD_RATES.format(rows=rows), values)


def _forget(run: Run) -> None:
    """What an earlier meaning has made; what was reported stays."""
    with connection.cursor() as cursor:
        if run.meaning.get("pass_rate"):
            cursor.execute(_FORGET_RATES, {"run": run.pk, "rate": PASS_RATE})
        if run.meaning.get("devices"):
            cursor.execute(_FORGET_HOURS, {"run": run.pk})


def _check(run: Run, meaning: Meaning) -> None:
    if meaning.devices is not None and not 0 < meaning.devices <= MOST_DEVICES:
        raise InvalidInput("devices", f"The number of devices is above 0 and at most {MOST_DEVICES:,}.")
    if meaning.n_prompts is not None and not 0 < meaning.n_prompts <= MOST_PROMPTS:
        raise InvalidInput("n_prompts", f"The number of prompts is between 1 and {MOST_PROMPTS:,}.")
    if not meaning.pass_rate:
        return
    if meaning.pass_rate == PASS_RATE or _reports_rate(run):
        raise Conflict(
            f"This run reports {PASS_RATE} itself; no other metric can stand for it.", field="pass_rate"
        )
    series = Series.objects.filter(run=run, metric=meaning.pass_rate).first()
    if series is None:
        raise InvalidInput("pass_rate", f"This run has no metric {meaning.pass_rate[:250]}.")
    outside = (
        Point.objects.filter(series=series).exclude(value__range=(0, 1)).order_by("attempt", "seq").first()
    )
    if outside is not None:
        raise InvalidInput(
            "pass_rate",
            f"{meaning.pass_rate} is {outside.value:g} at step {outside.step}: a pass rate is between 0 and 1.",
        )


def _is_predicted(run: Run) -> bool:
    """Whether other points would be another question than the one that somebody has answered."""
    still = Q(withdrawn_at=None, replaced_by=None, outcomes=None)
    return run.predictions.filter(still).exists() or run.rival_predictions.filter(still).exists()


def _reports_rate(run: Run) -> bool:
    """Whether its records, not what was said of them, hold a pass rate."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT EXISTS (
                SELECT 1 FROM runs_series AS s JOIN runs_point AS p ON p.series_id = s.id
                JOIN runs_record AS r ON r.run_id = s.run_id AND r.attempt = p.attempt AND r.seq = p.seq
                WHERE s.run_id = %s AND s.metric = %s AND r.metrics -> %s <> 'null')
            """,
            [run.pk, PASS_RATE, PASS_RATE],
        )
        (found,) = cursor.fetchone()
    return bool(found)
