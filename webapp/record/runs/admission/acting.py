"""The queue's next step: what `deciding` says is done, under one lock, and what waits says for what."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F, Q

from training.bundles import total
from webapp.base.advisory_locks import take_turns
from webapp.record.runs import outbox, stopping
from webapp.record.runs.admission import reading
from webapp.record.runs.admission.deciding import decide
from webapp.record.runs.admission.parts import Cluster, Decision, Share
from webapp.record.runs.admission.words import LATER, sentences
from webapp.record.runs.models import Attempt, Dispatch, Run, State, submission_id_of
from webapp.record.runs.names import label_of
from webapp.record.runs.states import DISPATCH, Move, move_many

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


@transaction.atomic
def admit(
    free: Q, now: datetime, claim: timedelta, *, run_id: str | None = None, most: int = 100
) -> list[Dispatch]:
    """Claim the submissions that go now, of one run or of all, and have the runs that wait say for what.

    `free`: dispatch rows that nobody has claimed. Decisions are made one after the other, each over the whole queue.
    """
    take_turns("admission")
    rows = reading.due_submissions(free)
    if not rows:
        return []
    if held := outbox.why_held():
        _tell(rows, {}, held)
        _tell_the_rest(rows, free, held)
        return []
    outcome = look(rows, now)
    _step_back([run for run in outcome.runs if run.pk in outcome.decision.step_back])
    by_run = {row.queued.run: row for row in rows}
    started = outcome.decision.start
    claimed = _claim([by_run[run] for run in started if run_id in (None, run)][:most], now + claim)
    _tell([row for row in rows if row.queued.run not in set(started)], outcome.sentences(), LATER)
    _tell_the_rest(rows, free, LATER)
    return claimed


@dataclass(frozen=True)
class Outcome:
    """A decision with what it was made of."""

    decision: Decision
    cluster: Cluster
    shares: Mapping[int, Share]
    runs: Sequence[Run]  # at work

    def sentences(self) -> dict[str, str]:
        """Run -> what it waits for. One query."""
        waiting = [wait.run.run for wait in self.decision.waits]
        named = Run.objects.filter(pk__in=[*waiting, *self.decision.start]).only("name", "seed", "project_id")
        known = {run.pk: run for run in named}
        started = [known[run] for run in self.decision.start if run in known]
        working = [(run.project_id, label_of(run)) for run in [*self.runs, *started]]
        names = {pk: label_of(run) for pk, run in known.items()}
        has = None
        if self.cluster.nodes is not None:
            has = {name: total(self.cluster.nodes, name) for name in ("CPU", "GPU")}
        return sentences(self.decision, has, self.shares, working, names)


def look(rows: Sequence[reading.Row], now: datetime) -> Outcome:
    """What would be done with this queue now; nothing is changed."""
    runs, seen = reading.runs_at_work(), reading.cluster_seen()
    shares = reading.shares_of((row.queued.project for row in rows), runs)
    queue = reading.queue_of(rows, shares, now)
    cluster = seen.beside(submission_id_of(run.pk, run.attempt_number) for run in runs)
    return Outcome(decide(queue, reading.at_work(runs, seen), cluster, shares), cluster, shares, runs)


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
    reason = stopping.while_waiting(STEPS_BACK)
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
    told = reading.due(free).exclude(run__in=[row.queued.run for row in rows])
    others = Run.objects.filter(state=State.QUEUED, pk__in=told.values("run")).exclude(state_reason=reason)
    others.update(state_reason=reason, version=F("version") + 1)
