"""Which state may follow which, and the one place that changes a state: a conditional UPDATE.

    queued -> submitting -> starting -> running -> succeeded | failed | lost
       \\___________\\___________\\__________\\____-> stopping -> cancelled

A queued run is cancelled at once. A driver may report before its dispatch is marked done, so every state before
`running` may go there; a lost run that speaks again runs again. A resume starts the next attempt from the end.
"""

from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.runs.models import Attempt, Run, State

WAITING = frozenset({State.QUEUED, State.SUBMITTING, State.STARTING})
ACTIVE = WAITING | {State.RUNNING, State.STOPPING}
ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST})

LEAVES: dict[str, frozenset[State]] = {  # a state: the states that it may be reached from
    State.QUEUED: frozenset({State.SUBMITTING}),  # Ray could not be reached; it will be tried again
    State.SUBMITTING: frozenset({State.QUEUED}),
    State.STARTING: frozenset({State.QUEUED, State.SUBMITTING}),
    State.RUNNING: WAITING | {State.LOST},
    State.STOPPING: frozenset({State.SUBMITTING, State.STARTING, State.RUNNING}),
    State.SUCCEEDED: ACTIVE | {State.LOST},
    State.FAILED: ACTIVE | {State.LOST},
    State.CANCELLED: ACTIVE | {State.LOST},
    State.LOST: ACTIVE - {State.QUEUED},
}


@transaction.atomic
def move(
    run: Run,
    to: State,
    *,
    attempt: int,
    reason: str = "",
    leaving: frozenset[State] | set[State] | None = None,
    **fields: Any,
) -> bool:
    """Move the run and its attempt to a state, if the attempt is the current one and the state allows it.

    True when exactly this call did it. `leaving` narrows the states it may be reached from; `fields` are further
    columns of the run. An earlier attempt is moved without the run. The instance is brought up to date.
    """
    sources = LEAVES[to] if leaving is None else LEAVES[to] & leaving
    now = timezone.now()
    stamps = {"ended_at": now if to in ENDED else None}
    changed = Run.objects.filter(pk=run.pk, attempt_number=attempt, state__in=sources).update(
        state=to, state_reason=reason, version=F("version") + 1, **stamps, **fields
    )
    if changed == 0 and Run.objects.filter(pk=run.pk, attempt_number__lte=attempt).exists():
        return False
    moved = Attempt.objects.filter(run=run, number=attempt, state__in=sources).update(
        state=to, message=reason, **stamps
    )
    run.refresh_from_db()
    return bool(changed or moved)


@transaction.atomic
def queue_next_attempt(run: Run) -> bool:
    """From an ended attempt to the next one, queued. True when exactly this call did it."""
    number = run.attempt_number
    changed = Run.objects.filter(pk=run.pk, attempt_number=number, state__in=ENDED).update(
        state=State.QUEUED,
        state_reason="",
        ended_at=None,
        attempt_number=number + 1,
        version=F("version") + 1,
    )
    if changed:
        new_attempt(run, number + 1, State.QUEUED)
        run.refresh_from_db()
    return bool(changed)


@transaction.atomic
def take_over(run: Run, number: int) -> None:
    """A tracked run's trainer was started anew as this attempt: it is the current one, and running."""
    new_attempt(run, number, State.RUNNING)
    Attempt.objects.filter(run=run, number__lt=number, state__in=ACTIVE).update(
        state=State.LOST, message="a later attempt took over", ended_at=timezone.now()
    )
    Run.objects.filter(pk=run.pk, attempt_number__lt=number).update(
        state=State.RUNNING, state_reason="", ended_at=None, attempt_number=number, version=F("version") + 1
    )
    run.refresh_from_db()


def new_attempt(run: Run, number: int, state: State) -> Attempt:
    """A launch of the run; its id at Ray follows from run and number, so that submitting twice is one job."""
    return Attempt.objects.create(
        run=run, number=number, state=state, submission_id=f"run-{run.pk}-a{number}"
    )


def bump(run_id: str, **fields: Any) -> None:
    """Something visible changed without a change of state: the page's cursor grows."""
    Run.objects.filter(pk=run_id).update(version=F("version") + 1, **fields)
