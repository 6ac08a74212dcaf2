"""The queue's next step: what `deciding` says is done, under one lock, and what waits says for what.

What a queued run waits for, behind whom, and about how long: one line that stays the same while little changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import BooleanField, F, Q
from django.db.models.expressions import RawSQL

from training.bundles import Amounts, needed, total
from webapp.base.claims import take_turns
from webapp.record.runs import outbox
from webapp.record.runs.admission import reading
from webapp.record.runs.admission.deciding import decide
from webapp.record.runs.admission.parts import (
    Cluster,
    Decision,
    Guest,
    Queued,
    Share,
    Span,
    Wait,
    Why,
    guests,
)
from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Attempt, Dispatch, Run, State, submission_id_of
from webapp.record.runs.states import DISPATCH, Move, move_many

UNITS = {"GPU": ("GPU", "GPUs"), "CPU": ("CPU core", "CPU cores")}
# Minutes that a time is rounded to, so that the line is not another one at each look.
RUNGS = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440, 2880, 4320, 7200, 10080)
LATER = "waits for its turn, behind more runs than are counted"
UNKNOWN = "waits until the run before it has started: what the cluster has is not known"
STEPS_BACK = "Steps back for a run of higher priority and goes on later"
# Rows that somebody else changes at the moment are told the next time: nobody waits for the other in a circle.
TELL = """
WITH held AS (
    SELECT id FROM runs_run WHERE id = ANY(%(runs)s) AND state = 'queued' FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE runs_run AS r SET state_reason = w.reason, version = r.version + 1
FROM held JOIN unnest(%(runs)s::text[], %(reasons)s::text[]) AS w(run_id, reason) ON w.run_id = held.id
WHERE r.id = held.id
"""


def sentences(
    decision: Decision,
    has: Amounts | None,
    shares: Mapping[int, Share],
    at_work: Sequence[tuple[int, str]],
    names: Mapping[str, str],
) -> dict[str, str]:
    """Run -> what it waits for. `has`: all of the cluster's devices, None where they are not known; `at_work`:
    (project, name) of runs at work; `names`: of the runs that wait."""
    said: dict[str, str] = {}
    before: list[tuple[int, str]] = []
    for wait in decision.waits:
        run = wait.run
        if wait.why == Why.PROJECT:
            said[run.run] = _for_project(wait, shares[run.project], at_work)
        elif has is None:
            said[run.run] = UNKNOWN
        elif wait.why == Why.TOO_LARGE:
            said[run.run] = too_large(run, has)
        else:
            queue = _behind(run, before) or _behind(run, at_work, " at work")
            said[run.run] = _for_cluster(wait, decision.free, queue)
        if wait.why == Why.CLUSTER:
            before.append((run.project, names.get(run.run, run.run)))
    return said


def too_large(run: Queued, has: Amounts) -> str:
    """ "needs 2 GPUs, the cluster has 0"."""
    short = [
        f"{_amount(name, amount)}, the cluster has {has.get(name, 0):g}"
        for name, amount in reversed(needed(run.bundles).items())
        if amount > has.get(name, 0)
    ]
    return f"needs {' and '.join(short) or 'more on one node than any has'}"


def _for_project(wait: Wait, share: Share, at_work: Sequence[tuple[int, str]]) -> str:
    own = [pair for pair in at_work if pair[0] == wait.run.project]
    taken = f"waits for a place in its project: {len(own)} of {share.most_at_work} at work"
    return "; ".join(part for part in (taken, _behind(wait.run, own, " at work"), when(wait.starts)) if part)


def _for_cluster(wait: Wait, free: Amounts, behind: str) -> str:
    asked = [
        f"{_amount(name, amount)}, {max(0.0, free.get(name, 0)):g} free"
        for name, amount in reversed(needed(wait.run.bundles).items())
    ]
    parts = [f"waits for the cluster: needs {' and '.join(asked)}", behind, when(wait.starts)]
    return "; ".join(part for part in parts if part)


def _amount(name: str, amount: float) -> str:
    return f"{amount:g} {UNITS[name][amount != 1]}"


def _behind(run: Queued, before: Sequence[tuple[int, str]], what: str = "") -> str:
    """Names are told of runs of its own project alone: of both of two, or of the first of more."""
    if not before:
        return ""
    own = [name for project, name in before if project == run.project][: 2 if len(before) == 2 else 1]
    others = len(before) - len(own)
    count = f"{len(before)} run{'' if len(before) == 1 else 's'}{what}"
    if not own:
        return f"behind {count} of other projects"
    return f"behind {count}: {' and '.join([*own, *([f'{others} more'] if others else [])])}"


def when(starts: Span | None) -> str:
    """ "starts in about 20 to 45 min"."""
    if starts is None:
        return "when it starts is not known"
    least = max((rung for rung in RUNGS if rung <= 60 * starts.least), default=0)
    if starts.most is None:
        return f"starts in {_minutes(least)} at the earliest" if least else "when it starts is not known"
    most = min((rung for rung in RUNGS if rung >= 60 * starts.most), default=RUNGS[-1])
    if not least:
        return f"starts within about {_minutes(most)}"
    first, unit = _minutes(least).split()
    if least == most:
        return f"starts in about {first} {unit}"
    return (
        f"starts in about {first if _minutes(most).endswith(unit) else _minutes(least)} to {_minutes(most)}"
    )


def _minutes(minutes: int) -> str:
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes / 60:g} h" if minutes < 2880 else f"{minutes / 1440:g} days"


@transaction.atomic
def admit(
    free: Q, now: datetime, claim: timedelta, *, run_id: str | None = None, most: int = 100
) -> list[Dispatch]:
    """Claim the submissions that go now, of one run or of all, and have the runs that wait say for what.

    `free`: dispatch rows that nobody has claimed. Decisions are made one after the other, each over the whole queue.
    """
    take_turns("admission")
    if not (rows := reading.due_submissions(free)):
        return []
    if held := outbox.why_held():
        _tell(rows, {}, held)
        _tell_the_rest(rows, free, held)
        return []
    outcome = look(rows, now)
    _step_back([run for run in outcome.runs if run.pk in outcome.decision.step_back])
    by_run = {row.queued.run: row for row in rows}
    started = outcome.decision.start
    going = [by_run[run] for run in started if run in by_run and run_id in (None, run)]
    claimed = _claim(going[:most], now + claim)
    _tell([row for row in rows if row.queued.run not in set(started)], outcome.sentences(), LATER)
    _tell_the_rest(rows, free, LATER)
    return claimed


def admit_guests(free: Q, now: datetime) -> tuple[list[str], dict[str, str]]:
    """Jobs of guests that go now, and what the others wait for. Part of the transaction that claims them; `free`:
    dispatch rows that nobody has claimed."""
    take_turns("admission")
    if held := outbox.why_held():
        return [], {guest.job: held for guest in guests() if guest.is_queued}
    outcome = look(reading.due_submissions(free), now)
    _step_back([run for run in outcome.runs if run.pk in outcome.decision.step_back])
    waiting = [guest.job for guest in outcome.guests if guest.is_queued]
    going = [job for job in outcome.decision.start if job in set(waiting)]
    said = outcome.sentences()
    return going, {job: said.get(job, LATER) for job in waiting if job not in set(going)}


@dataclass(frozen=True)
class Outcome:
    """A decision with what it was made of."""

    decision: Decision
    cluster: Cluster
    shares: Mapping[int, Share]
    runs: Sequence[Run]  # at work
    guests: Sequence[Guest]

    def sentences(self) -> dict[str, str]:
        """Run -> what it waits for. One query."""
        waiting = [wait.run.run for wait in self.decision.waits]
        named = Run.objects.filter(pk__in=[*waiting, *self.decision.start]).only("name", "seed", "project_id")
        known = {run.pk: run for run in named}
        started = [known[run] for run in self.decision.start if run in known]
        working = [(run.project_id, label_of(run)) for run in [*self.runs, *started]]
        going = set(self.decision.start)
        working += [
            (one.project_id, one.name) for one in self.guests if not one.is_queued or one.job in going
        ]
        names = {pk: label_of(run) for pk, run in known.items()} | {one.job: one.name for one in self.guests}
        has = None
        if self.cluster.nodes is not None:
            has = {name: total(self.cluster.nodes, name) for name in ("CPU", "GPU")}
        return sentences(self.decision, has, self.shares, working, names)


def look(rows: Sequence[reading.Row], now: datetime) -> Outcome:
    """What would be done with this queue now; nothing is changed."""
    runs, seen, others = reading.runs_at_work(), reading.cluster_seen(), guests()
    waiting = [row.queued for row in rows] + [guest.queued() for guest in others if guest.is_queued]
    working = [guest for guest in others if not guest.is_queued]
    shares = reading.shares_of((one.project for one in waiting), [*runs, *working])
    queue = reading.queue_of(waiting, shares, now)
    cluster = seen.beside(submission_id_of(run.pk, run.attempt_number) for run in runs)
    at_work = reading.at_work(runs, seen) + [guest.at_work(reading.STOP) for guest in working]
    return Outcome(decide(queue, at_work, cluster, shares), cluster, shares, runs, others)


def _claim(going: Sequence[reading.Row], until: datetime) -> list[Dispatch]:
    """Those that nobody has cancelled meanwhile, in order."""
    moves = [Move(row.queued.run, row.attempt, State.SUBMITTING, leaving={State.QUEUED}) for row in going]
    moved = move_many(moves, part=DISPATCH)
    claimed = [row.dispatch for row in going if (row.queued.run, row.attempt) in moved]
    Dispatch.objects.filter(pk__in=claimed).update(claimed_until=until, tries=F("tries") + 1)
    found = Dispatch.objects.select_related("run__project").in_bulk(claimed)
    return [found[pk] for pk in claimed]


def _step_back(runs: Sequence[Run]) -> None:
    """They are asked to stop, which writes a checkpoint; `retrying` queues them again once they have."""
    reason = outbox.while_waiting(STEPS_BACK)
    moves = [Move(run.pk, run.attempt_number, State.STOPPING, reason, {State.RUNNING}) for run in runs]
    moved = move_many(moves, part=DISPATCH)
    for run in runs:
        if (run.pk, run.attempt_number) in moved:
            attempt = Attempt.objects.filter(run=run, number=run.attempt_number)
            attempt.update(failure=Attempt.Failure.STEPPED_BACK)
            outbox.stop(run, run.attempt_number)


def _tell(rows: Sequence[reading.Row], said: Mapping[str, str], otherwise: str) -> None:
    """Nothing is written that is said already."""
    reasons = {row.queued.run: said.get(row.queued.run, otherwise) for row in rows}
    news = [row.queued.run for row in rows if row.reason != reasons[row.queued.run]]
    if news:
        with connection.cursor() as cursor:
            cursor.execute(TELL, {"runs": news, "reasons": [reasons[run] for run in news]})


def _tell_the_rest(rows: Sequence[reading.Row], free: Q, reason: str) -> None:
    """Runs too far behind to be looked at."""
    if len(rows) < reading.LOOKED_AT:
        return
    told = [row.queued.run for row in rows]  # as one parameter: many take longer than the statement
    is_told = RawSQL("runs_run.id = ANY(%s)", [told], output_field=BooleanField())  # nosec B611  # a constant
    others = Run.objects.filter(state=State.QUEUED, pk__in=reading.due(free).values("run"))
    others = others.exclude(state_reason=reason).annotate(is_told=is_told).filter(is_told=False)
    others.update(state_reason=reason, version=F("version") + 1)
