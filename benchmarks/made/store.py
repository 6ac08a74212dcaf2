"""Writing planned runs: their rows by Django, their points inside PostgreSQL, a few runs at a time.

The points of the runs of a batch lie as if they had trained side by side: step after step, every series of every run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from benchmarks.made.plan import (
    PASS_RATE,
    SHAPES,
    TRUNCATION_END,
    TRUNCATION_METRIC,
    MadeRun,
    Shape,
    config_of,
)
from webapp.identity.accounts.models import Project, User
from webapp.record.recipes.models import Revision
from webapp.record.runs.models import Attempt, Run, Series, State, submission_id_of
from webapp.record.runs.states import ENDED

SIDE_BY_SIDE = 8
GPUS = 80  # device-hours pass this much faster than hours
FLOPS_PER_HOUR, TOKENS_PER_HOUR = 1.4e18, 1.5e6
EVERY_STEP = "train/reward"
STDERR = 0.010  # of an evaluation of 1,000 prompts, as the trainer reports it

CREATE_SEGMENTS = """
CREATE TEMPORARY TABLE IF NOT EXISTS made_segment (
    series_id bigint, attempt integer, first_step bigint, last_step bigint, every bigint,
    start float8, finish float8, noise float8, lo float8, hi float8, stderr float8,
    b float8, c_mid float8, hours_per_step float8, began timestamptz
) ON COMMIT DELETE ROWS
"""
INSERT_POINTS = """
INSERT INTO runs_point (series_id, attempt, seq, step, "time", device_hours, flops, tokens, value, stderr)
SELECT series_id, attempt, step, step, began + hours / %(gpus)s * interval '1 hour',
    hours, hours * %(flops)s, hours * %(tokens)s,
    least(hi, greatest(lo, start + (finish - start) * share + noise * random_normal())), stderr
FROM made_segment
CROSS JOIN LATERAL (
    SELECT step, step * hours_per_step AS hours FROM generate_series(first_step, last_step, every) AS step
) AS spent
CROSS JOIN LATERAL (
    SELECT CASE WHEN hours > 0 THEN 1 / (1 + power(c_mid / hours, b)) ELSE 0 END AS share
) AS curve
ORDER BY attempt, step, series_id
"""
# Of the records, which repeat what the points say, the newest of each run: lists read the compute spent from it.
INSERT_NEWEST_RECORDS = """
INSERT INTO runs_record (run_id, attempt, seq, step, "time", compute, metrics)
SELECT newest.run_id, newest.attempt, newest.seq, newest.step, newest."time",
    jsonb_build_object('device_hours', newest.device_hours, 'flops', newest.flops, 'tokens', newest.tokens),
    (SELECT jsonb_object_agg(s.metric, p.value) FROM runs_series AS s JOIN runs_point AS p ON p.series_id = s.id
     WHERE s.run_id = newest.run_id AND p.attempt = newest.attempt AND p.seq = newest.seq)
FROM (
    SELECT DISTINCT ON (s.run_id) s.run_id, p.* FROM runs_series AS s JOIN runs_point AS p ON p.series_id = s.id
    WHERE s.run_id = ANY(%(runs)s) AND s.metric = %(metric)s ORDER BY s.run_id, p.attempt DESC, p.seq DESC
) AS newest
"""


@dataclass(frozen=True)
class Stored:
    """What a batch wrote: its runs, and how many points."""

    runs: list[Run]
    points: int


def store_runs(
    project: Project, author: User | None, revisions: Sequence[Revision], planned: Sequence[MadeRun]
) -> Iterator[Stored]:
    """Store the runs with attempts, series, points and newest record, a batch in a transaction."""
    now = timezone.now()
    for first in range(0, len(planned), SIDE_BY_SIDE):
        batch = planned[first : first + SIDE_BY_SIDE]
        with transaction.atomic():
            runs = [_run(project, author, revisions[made.recipe], made, now) for made in batch]
            Run.objects.bulk_create(runs)
            for run, made in zip(runs, batch, strict=True):  # bulk_create sets the present time
                Run.objects.filter(pk=run.pk).update(created_at=_launched(made, now))
            Attempt.objects.bulk_create(
                attempt
                for run, made in zip(runs, batch, strict=True)
                for attempt in _attempts(run, made, now)
            )
            yield Stored(runs, _store_points(runs, batch, now, seed=first))


def _launched(made: MadeRun, now: datetime) -> datetime:
    return now - timedelta(hours=made.age_hours)


def _began(made: MadeRun, now: datetime) -> datetime:
    return _launched(made, now) + timedelta(minutes=2)


def _after_step(made: MadeRun, step: int, now: datetime) -> datetime:
    return _began(made, now) + timedelta(hours=step * made.hours_per_step / GPUS)


def _run(project: Project, author: User | None, revision: Revision, made: MadeRun, now: datetime) -> Run:
    trained = made.state != State.QUEUED
    return Run(
        project=project,
        revision=revision,
        origin=Run.Origin.TRACKED if made.tracked else Run.Origin.LAUNCHED,
        name=f"{revision.recipe.name}, {made.task}",
        task=made.task,
        model=made.model,
        seed=made.seed,
        budget_hours=made.budget_hours,
        config=config_of(revision.config, made),
        state=made.state,
        state_reason=made.reason(),
        attempt_number=2 if made.resumed_from is not None else 1,
        created_by=author,
        started_at=_began(made, now) if trained else None,
        ended_at=_after_step(made, made.steps, now) if made.state in ENDED else None,
        heartbeat_at=now if made.state == State.RUNNING else None,
    )


def _attempts(run: Run, made: MadeRun, now: datetime) -> list[Attempt]:
    def attempt(number: int, state: str, **fields: object) -> Attempt:
        job = submission_id_of(run.pk, number)
        return Attempt(run=run, number=number, state=state, submission_id=job, **fields)

    last = {"started_at": run.started_at, "ended_at": run.ended_at, "message": run.state_reason}
    if made.resumed_from is None or made.crashed_at is None:
        return [attempt(1, run.state, **last)]
    crashed = _after_step(made, made.crashed_at, now)
    first = attempt(
        1,
        State.FAILED,
        started_at=run.started_at,
        ended_at=crashed,
        message=f"node lost at step {made.crashed_at}",
    )
    return [
        first,
        attempt(2, run.state, resumed_from_step=made.resumed_from, **last | {"started_at": crashed}),
    ]


def _store_points(runs: Sequence[Run], batch: Sequence[MadeRun], now: datetime, *, seed: int) -> int:
    """The series and points of a batch; how many points."""
    pairs = [(run, made) for run, made in zip(runs, batch, strict=True) if made.state != State.QUEUED]
    wanted = [(run, made, shape) for run, made in pairs for shape in SHAPES]
    series = Series.objects.bulk_create(Series(run=run, metric=shape.metric) for run, _, shape in wanted)
    with connection.cursor() as cursor:
        cursor.execute(CREATE_SEGMENTS)
        cursor.execute("DELETE FROM made_segment")
        cursor.execute("SET LOCAL work_mem = '64MB'")  # the points of a batch are sorted
        cursor.execute("SET LOCAL synchronous_commit = off")  # what a power cut loses can be made again
        with cursor.copy("COPY made_segment FROM STDIN") as copy:
            for one, (_, made, shape) in zip(series, wanted, strict=True):
                for row in _segments(one.pk, made, shape, _began(made, now)):
                    copy.write_row(row)
        cursor.execute("SELECT setseed(%s)", [(seed % 1_000_003) / 1_000_003])
        cursor.execute(INSERT_POINTS, {"gpus": GPUS, "flops": FLOPS_PER_HOUR, "tokens": TOKENS_PER_HOUR})
        points = cursor.rowcount
        cursor.execute(INSERT_NEWEST_RECORDS, {"runs": [run.pk for run, _ in pairs], "metric": EVERY_STEP})
    return points


def _segments(series_id: int, made: MadeRun, shape: Shape, began: datetime) -> Iterator[tuple]:
    """Rows of made_segment: one an attempt."""
    every = made.evaluate_every if shape.evaluated else 1
    is_curve = shape.metric == PASS_RATE
    start, finish = (made.r0, made.a) if is_curve else (shape.start, shape.end)
    if made.truncated and shape.metric == TRUNCATION_METRIC:
        finish = TRUNCATION_END
    stderr = STDERR if is_curve else None
    curve = (
        start,
        finish,
        shape.noise,
        shape.lo,
        shape.hi,
        stderr,
        made.b,
        made.c_mid,
        made.hours_per_step,
        began,
    )
    first = 0 if shape.evaluated else 1  # evaluated before the first update
    if made.resumed_from is None:
        yield series_id, 1, first, made.steps, every, *curve
    else:
        yield series_id, 1, first, made.crashed_at, every, *curve
        yield series_id, 2, made.resumed_from + every, made.steps, every, *curve
