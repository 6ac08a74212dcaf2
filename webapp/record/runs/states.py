r"""Which state may follow which, and the one place that changes a state: a conditional UPDATE with its Transition row.

    draft --> queued --> submitting --> starting --> running --> succeeded | failed | lost
                \____________\____________\___________\--> stopping --> cancelled

A queued run is cancelled at once. A driver may report before its dispatch is marked done, so every state before
`running` may go there. A lost run that speaks again runs again, and one whose job Ray still has starts again. A resume
or a retry starts the next attempt from an end. docs/runs.md has all of it as a table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.base.compiled import rows_of
from webapp.identity.accounts.models import User
from webapp.identity.audit.services import record
from webapp.record.runs.models import Attempt, Run, State, Transition, submission_id_of

# What every page, list and answer calls a run that has not ended.
PHASES: dict[str, frozenset[State]] = {
    "waiting": frozenset({State.QUEUED}),  # costs nothing yet
    "starting": frozenset({State.SUBMITTING, State.STARTING}),  # handed over; it takes its devices and loads
    "running": frozenset({State.RUNNING, State.STOPPING}),  # has its devices
}
WAITING, STARTING, RUNNING = PHASES.values()
ACTIVE = WAITING | STARTING | RUNNING
ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST})
AT_WORK = ACTIVE - {State.QUEUED}  # holds a place of its project

LEAVES: dict[str, frozenset[State]] = {  # a state: the states that it may be reached from
    State.DRAFT: frozenset(),  # only made
    State.QUEUED: frozenset(
        {State.DRAFT, State.SUBMITTING}
    ),  # Ray could not be reached; it will be tried again
    State.SUBMITTING: frozenset({State.QUEUED}),
    State.STARTING: frozenset(
        {State.QUEUED, State.SUBMITTING, State.LOST}
    ),  # lost: Ray has its job after all
    State.RUNNING: WAITING | STARTING | {State.LOST},
    State.STOPPING: frozenset({State.SUBMITTING, State.STARTING, State.RUNNING}),
    State.SUCCEEDED: ACTIVE | {State.LOST},
    State.FAILED: ACTIVE | {State.LOST},
    State.CANCELLED: ACTIVE | {State.LOST},
    State.LOST: ACTIVE - {State.QUEUED},
}

# The part of the system that changes a state, where no person does.
DISPATCH, DRIVER, RECONCILIATION, INSTALLATION = "dispatch", "driver", "reconciliation", "installation"

MOVE = """
WITH wanted AS (
    SELECT * FROM unnest(
        %(runs)s::text[], %(attempts)s::int[], %(states)s::text[], %(sources)s::text[], %(reasons)s::text[],
        %(ends)s::timestamptz[]
    ) AS w(run_id, attempt, state, sources, reason, ended_at)
), held AS (
    SELECT id, state, attempt_number FROM runs_run
    WHERE id IN (SELECT run_id FROM wanted) ORDER BY id FOR NO KEY UPDATE
), changed AS (
    UPDATE runs_run AS r
    SET state = w.state, state_reason = w.reason, ended_at = w.ended_at, version = r.version + 1
    FROM held AS h JOIN wanted AS w ON w.run_id = h.id AND w.attempt = h.attempt_number
    WHERE r.id = h.id AND r.attempt_number = w.attempt AND r.state = ANY(string_to_array(w.sources, ','))
    RETURNING r.id AS run_id, w.attempt, h.state AS was
), tried AS (
    UPDATE runs_attempt AS a SET state = w.state, message = w.reason, ended_at = w.ended_at
    FROM wanted AS w
    JOIN held AS h ON h.id = w.run_id
    JOIN runs_attempt AS o ON o.run_id = w.run_id AND o.number = w.attempt
    LEFT JOIN changed AS c ON c.run_id = w.run_id AND c.attempt = w.attempt
    WHERE a.id = o.id AND (c.run_id IS NOT NULL OR (
        h.attempt_number > w.attempt AND a.state = ANY(string_to_array(w.sources, ','))))
    RETURNING a.run_id, a.number AS attempt, o.state AS was, c.run_id IS NULL AS alone
), moved AS (
    SELECT run_id, attempt, was FROM changed
    UNION ALL SELECT run_id, attempt, was FROM tried WHERE alone
)
INSERT INTO runs_transition (run_id, attempt, from_state, to_state, at, actor_id, part, reason)
SELECT m.run_id, m.attempt, m.was, w.state, %(now)s, %(actor)s::bigint, %(part)s, w.reason
FROM moved AS m JOIN wanted AS w ON w.run_id = m.run_id AND w.attempt = m.attempt
ORDER BY m.run_id, m.attempt
RETURNING run_id, attempt
"""


@dataclass(frozen=True)
class Move:
    """One attempt that is to be in another state. `leaving` narrows the states that it may leave for it; `ended_at`:
    when it ended, where that was not now."""

    run_id: str
    attempt: int
    to: State
    reason: str = ""
    leaving: frozenset[State] | set[State] | None = None
    ended_at: datetime | None = None

    @property
    def sources(self) -> str:
        allowed = LEAVES[self.to] if self.leaving is None else LEAVES[self.to] & self.leaving
        return ",".join(sorted(allowed))


def move_many(moves: Sequence[Move], *, actor: User | None = None, part: str = "") -> set[tuple[str, int]]:
    """Make every move that its run's state allows, each with its Transition row: one statement for all of them.

    Returns the (run, attempt) that exactly this call moved. An earlier attempt is moved without its run; one that the
    run does not have yet is not. At most one move for each attempt.
    """
    if not moves:
        return set()
    now = timezone.now()
    values: dict[str, Any] = {
        "runs": [move.run_id for move in moves],
        "attempts": [move.attempt for move in moves],
        "states": [str(move.to) for move in moves],
        "sources": [move.sources for move in moves],
        "reasons": [move.reason for move in moves],
        "ends": [(move.ended_at or now) if move.to in ENDED else None for move in moves],
        "now": now,
        "actor": actor.pk if actor else None,
        "part": part,
    }
    return set(rows_of(MOVE, values))


@transaction.atomic
def move(
    run: Run,
    to: State,
    *,
    attempt: int,
    reason: str = "",
    leaving: frozenset[State] | set[State] | None = None,
    actor: User | None = None,
    part: str = "",
    **fields: Any,
) -> bool:
    """Move the run and its attempt to a state, if the attempt is the current one and the state allows it.

    True when exactly this call did it. `leaving` narrows the states it may be reached from; `fields` are further
    columns of the run. An earlier attempt is moved without the run. The instance is brought up to date.
    """
    if not move_many([Move(run.pk, attempt, to, reason, leaving)], actor=actor, part=part):
        return False
    if fields:
        Run.objects.filter(pk=run.pk, attempt_number=attempt).update(**fields)
    run.refresh_from_db()
    return True


NEXT_ATTEMPT = """
WITH wanted AS (
    SELECT * FROM unnest(%(runs)s::text[], %(attempts)s::int[], %(reasons)s::text[], %(jobs)s::text[])
        AS w(run_id, attempt, reason, job)
), held AS (
    SELECT id, state FROM runs_run WHERE id IN (SELECT run_id FROM wanted) ORDER BY id FOR NO KEY UPDATE
), changed AS (
    UPDATE runs_run AS r
    SET state = 'queued', state_reason = w.reason, ended_at = NULL, attempt_number = w.attempt + 1,
        version = r.version + 1, retries = CASE WHEN %(is_retry)s THEN r.retries + 1 ELSE 0 END
    FROM held AS h JOIN wanted AS w ON w.run_id = h.id
    WHERE r.id = h.id AND r.attempt_number = w.attempt AND r.state = ANY(%(leaving)s)
    RETURNING r.id AS run_id, r.attempt_number AS attempt, h.state AS was, w.reason, w.job
), made AS (
    INSERT INTO runs_attempt (run_id, number, submission_id, state, message, created_at, log_tail, failure)
    SELECT run_id, attempt, job, 'queued', '', %(now)s, '', '' FROM changed
)
INSERT INTO runs_transition (run_id, attempt, from_state, to_state, at, actor_id, part, reason)
SELECT run_id, attempt, was, 'queued', %(now)s, %(actor)s::bigint, %(part)s, reason FROM changed ORDER BY run_id
RETURNING run_id
"""


def queue_next_attempts(
    wanted: Iterable[tuple[str, int, str]],
    *,
    leaving: frozenset[State] = ENDED,
    is_retry: bool = False,
    actor: User | None = None,
    part: str = "",
) -> set[str]:
    """(run, its current attempt, why): from that ended attempt to the next one, queued. One statement for all.

    Returns the runs that exactly this call queued. A retry counts as one; anything else counts them from 0 again.
    """
    if not (rows := list(wanted)):
        return set()
    values: dict[str, Any] = {
        "runs": [run_id for run_id, _, _ in rows],
        "attempts": [attempt for _, attempt, _ in rows],
        "reasons": [reason for _, _, reason in rows],
        "jobs": [submission_id_of(run_id, attempt + 1) for run_id, attempt, _ in rows],
        "leaving": [str(state) for state in sorted(leaving)],
        "is_retry": is_retry,
        "now": timezone.now(),
        "actor": actor.pk if actor else None,
        "part": part,
    }
    return {run_id for (run_id,) in rows_of(NEXT_ATTEMPT, values)}


@transaction.atomic
def queue_next_attempt(run: Run, *, reason: str = "", actor: User | None = None, part: str = "") -> bool:
    """From an ended attempt to the next one, queued. True when exactly this call did it."""
    changed = queue_next_attempts([(run.pk, run.attempt_number, reason)], actor=actor, part=part)
    if changed:
        run.refresh_from_db()
    return bool(changed)


@transaction.atomic
def take_over(run: Run, number: int) -> None:
    """A tracked run's trainer was started anew as this attempt: it is the current one, and running."""
    new_attempt(run, number, State.RUNNING)
    now = timezone.now()
    earlier = Attempt.objects.filter(run=run, number__lt=number, state__in=ACTIVE)
    for before, state in list(earlier.values_list("number", "state")):
        _note(run, before, state, State.LOST, now, reason="a later attempt took over")
    earlier.update(state=State.LOST, message="a later attempt took over", ended_at=now)
    changed = Run.objects.filter(pk=run.pk, attempt_number__lt=number).update(
        state=State.RUNNING, state_reason="", ended_at=None, attempt_number=number, version=F("version") + 1
    )
    if changed:
        _note(run, number, run.state, State.RUNNING, now, reason="")
    run.refresh_from_db()


def _note(run: Run, attempt: int, was: str, to: State, at: datetime, *, reason: str) -> None:
    Transition.objects.create(
        run=run, attempt=attempt, from_state=was, to_state=to, at=at, part=DRIVER, reason=reason
    )


def note_made(run: Run, *, actor: User | None) -> None:
    """The first line of a run's history: it was made, in the state that it is in."""
    part = "" if actor else INSTALLATION
    Transition.objects.create(
        run=run, attempt=run.attempt_number, to_state=run.state, at=timezone.now(), actor=actor, part=part
    )


def record_run(verb: str, run: Run, user: User | None, **detail: Any) -> None:
    """Note in the audit log what was done to a run; without a user the installation did it."""
    record(verb, actor=user, project=run.project, kind="run", key=run.pk, name=run.name, **detail)


def new_attempt(run: Run, number: int, state: State) -> Attempt:
    """A launch of the run."""
    job = submission_id_of(run.pk, number)
    return Attempt.objects.create(run=run, number=number, state=state, submission_id=job)


def bump(run_id: str, **fields: Any) -> None:
    """Something visible changed without a change of state: the page's cursor grows."""
    Run.objects.filter(pk=run_id).update(version=F("version") + 1, **fields)
