"""What happens to a run after its launch: claimed, submitted, cancelled, reported. `observation` has the rest.

Giving a run a larger budget: while it runs, or after it has used the one it had.

Going on by itself after a failure of the infrastructure: the next attempt, from the newest checkpoint.

A failure of the recipe would come again, so it is never retried. What was stopped by a person is not either. What
stepped back for a run of higher priority goes on the same way.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from webapp.base import task_queue
from webapp.base.claims import CLAIM, is_free, wait_after
from webapp.base.compiled import rows_of
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import User
from webapp.identity.secrets.services import redact
from webapp.record.runs import outbox, places
from webapp.record.runs.admission.acting import admit
from webapp.record.runs.bounds import SPENT_SHARE, check_budget
from webapp.record.runs.models import Attempt, Dispatch, Run, State
from webapp.record.runs.selectors import used_hours
from webapp.record.runs.states import (
    ACTIVE,
    DISPATCH,
    DRIVER,
    ENDED,
    INSTALLATION,
    RECONCILIATION,
    Move,
    bump,
    move,
    move_many,
    queue_next_attempts,
    record_run,
    take_over,
)
from worker import names

FIRST_RETRY = timedelta(seconds=4)
MAX_ATTEMPT = 32767
REPORTED_ENDS = (State.SUCCEEDED, State.FAILED, State.CANCELLED)


# --- dispatch -------------------------------------------------------------------------------------------------
RETRIED = frozenset({State.FAILED, State.LOST})
FIRST_WAIT = timedelta(seconds=10)  # then 30 s, 90 s, ...
LONGEST_WAIT = timedelta(minutes=15)
TOO_LATE = timedelta(hours=1)  # after its end a run is left as it is


def claim_dispatches(*, run_id: str | None = None, limit: int = 100) -> list[Dispatch]:
    """Take dispatch rows to work on for 60 s; a claim that ran out may be taken over.

    Stops come first, then what is under way already, then submissions of queued runs that go now (`admission`). Each is
    claimed by a conditional UPDATE, so that of two workers one gets it. A stop waits until the submission of the same
    attempt is settled. Rows that have become pointless are closed.
    """
    now = timezone.now()
    free = Q(done_at=None) & is_free(now)
    unsent = Dispatch.objects.filter(
        run=OuterRef("run"), attempt=OuterRef("attempt"), kind=Dispatch.Kind.SUBMIT, done_at=None
    )
    queued = Q(kind=Dispatch.Kind.SUBMIT, run__state=State.QUEUED, attempt=F("run__attempt_number"))
    candidates = (
        Dispatch.objects.filter(free).exclude(Q(Exists(unsent), kind=Dispatch.Kind.STOP)).exclude(queued)
    )
    if run_id is not None:
        candidates = candidates.filter(run_id=run_id)
    found = candidates.select_related("run__project").order_by("kind", "id")[:limit]
    return [row for row in found if _claim(row, free, now)] + admit(
        free, now, CLAIM, run_id=run_id, most=limit
    )


@transaction.atomic
def _claim(dispatch: Dispatch, free: Q, now: datetime) -> bool:
    taken = Dispatch.objects.filter(free, pk=dispatch.pk).update(
        claimed_until=now + CLAIM, tries=F("tries") + 1
    )
    if not taken:
        return False
    dispatch.refresh_from_db(fields=["claimed_until", "tries"])
    if dispatch.kind != Dispatch.Kind.SUBMIT or _is_being_submitted(dispatch):
        return True
    _close(dispatch, error="not sent: the run did not want it any more")
    return False


def _is_being_submitted(dispatch: Dispatch) -> bool:
    """It is taken over from a worker that died between claim and submission."""
    run = dispatch.run
    run.refresh_from_db()
    return run.state == State.SUBMITTING and run.attempt_number == dispatch.attempt


@transaction.atomic
def dispatch_done(dispatch: Dispatch) -> None:
    """Ray Jobs took the submission (or the stop). Safe to repeat."""
    if _close(dispatch) and dispatch.kind == Dispatch.Kind.SUBMIT:
        move(dispatch.run, State.STARTING, attempt=dispatch.attempt, part=DISPATCH)
        task_queue.send(names.DISPATCH, dispatch.run_id)  # a stop may have waited for this


@transaction.atomic
def dispatch_failed(dispatch: Dispatch, error: str, *, retry: bool) -> None:
    """Ray Jobs did not take it. With `retry` it waits a while, doubling up to a minute; else the run has failed."""
    text = redact(dispatch.run.project_id, error.replace("\0", "").strip()) or "unknown error"
    if not retry:
        if _close(dispatch, error=text) and dispatch.kind == Dispatch.Kind.SUBMIT:
            reason = f"Could not be submitted: {text}"
            move(dispatch.run, State.FAILED, attempt=dispatch.attempt, reason=reason, part=DISPATCH)
        return
    wait = wait_after(dispatch.tries, first=FIRST_RETRY, longest=CLAIM)
    Dispatch.objects.filter(pk=dispatch.pk, done_at=None).update(
        claimed_until=timezone.now() + wait, error=text
    )
    if dispatch.kind == Dispatch.Kind.SUBMIT:
        move(
            dispatch.run,
            State.QUEUED,
            attempt=dispatch.attempt,
            reason=f"Could not be submitted, will be tried again: {text}",
            leaving={State.SUBMITTING},
            part=DISPATCH,
        )


def _close(dispatch: Dispatch, error: str = "") -> bool:
    rows = Dispatch.objects.filter(pk=dispatch.pk, done_at=None)
    if dispatch.kind == Dispatch.Kind.BUDGET:  # extended once more meanwhile: there is a newer figure to tell
        rows = rows.filter(claimed_until=dispatch.claimed_until)
    return bool(rows.update(done_at=timezone.now(), claimed_until=None, error=error))


# --- what people ask for --------------------------------------------------------------------------------------


@transaction.atomic
def cancel_run(run: Run, *, user: User | None, reason: str = "") -> Run:
    """Stop the run: at once while it is queued or tracked, else by asking its job to stop; its driver then writes a
    checkpoint. Safe to repeat.

    A run that steps back does not go on later. `reason`: why, in words without a full stop, where it is not that a
    person wanted it. Raises Conflict where the run has ended otherwise.
    """
    attempt = run.attempt_number
    by = reason.replace(";", ",") or (f"Cancelled by {user}" if user is not None else "Cancelled")
    who: dict[str, Any] = {"actor": user, "part": "" if user else INSTALLATION}
    Attempt.objects.filter(run=run, number=attempt, failure=Attempt.Failure.STEPPED_BACK).update(failure="")
    direct = {State.QUEUED} if run.origin == Run.Origin.LAUNCHED else {State.RUNNING}
    if move(run, State.CANCELLED, attempt=attempt, reason=f"{by}.", leaving=direct, **who):
        Dispatch.objects.filter(run=run, attempt=attempt, done_at=None).update(
            done_at=timezone.now(), error="not sent: the run was cancelled"
        )
        record_run("run.stopped", run, user)
    elif move(run, State.STOPPING, attempt=attempt, reason=outbox.while_waiting(by), **who):
        outbox.stop(run, attempt)
        record_run("run.stopped", run, user)
    else:
        run.refresh_from_db()
        if run.state == State.DRAFT:
            raise Conflict("This run is a draft: it was never launched. Delete it instead.")
        if run.state in ENDED - {State.CANCELLED}:
            raise Conflict(f"This run has already ended: {run.state}.")
        if run.state not in (State.STOPPING, State.CANCELLED):
            raise Conflict("This run changed its state meanwhile; try again.")
    return run


# --- what the trainer reports ---------------------------------------------------------------------------------


@transaction.atomic
def report_started(
    run: Run,
    *,
    attempt: int,
    resumed_from_step: int | None = None,
    device: Any = None,
    time: str | None = None,
) -> Run:
    """The attempt's trainer is up. Points of earlier attempts past `resumed_from_step` are superseded from now on;
    where it is None the attempt began anew and supersedes them all. `time`: since when, where it is told later (ISO
    8601). Safe to repeat.

    Raises InvalidInput where the run has no such attempt.
    """
    ensure_attempts(run, {attempt: "attempt"})
    now, at = timezone.now(), _moment(run, time)
    fresh = Attempt.objects.filter(run=run, number=attempt, started_at=None).update(
        started_at=at, resumed_from_step=resumed_from_step, device=device
    )
    started = min(run.started_at or at, at)
    moved = time is None and move(  # what is told later is no sign of life
        run, State.RUNNING, attempt=attempt, part=DRIVER, started_at=started, heartbeat_at=now
    )
    if fresh:
        refit = {"refit_wanted_at": now, "alarms_wanted_at": now} if attempt > 1 else {}
        bump(run.pk, started_at=started, heartbeat_at=now, **refit)
        if refit:
            task_queue.send(names.REFIT, run.pk)
    if fresh or moved:
        run.refresh_from_db()
    return run


@transaction.atomic
def report_finished(
    run: Run,
    *,
    attempt: int,
    state: str,
    message: str = "",
    infrastructure: bool = False,
    time: str | None = None,
) -> Run:
    """The attempt's trainer says how it ended: succeeded, failed or cancelled. Safe to repeat. With `infrastructure`
    it failed because of what it ran on, and may go on by itself from its newest checkpoint. `time`: when, where it is
    told later (ISO 8601); not before it began.

    Raises InvalidInput for another state or attempt, Conflict where the attempt has ended in another way.
    """
    if state not in REPORTED_ENDS:
        raise InvalidInput("state", f"state must be one of {', '.join(REPORTED_ENDS)}.")
    ensure_attempts(run, {attempt: "attempt"})
    reason = redact(run.project_id, message.replace("\0", ""))[:10_000]
    if state == State.CANCELLED:
        reason = _who_stopped(run, attempt) or reason
    ended_at = max(_moment(run, time), run.started_at or run.created_at)
    ending = Move(run.pk, attempt, State(state), reason, ended_at=ended_at)
    if move_many([ending], part=DRIVER):
        run.refresh_from_db()
        if state == State.FAILED:
            kind = Attempt.Failure.INFRASTRUCTURE if infrastructure else Attempt.Failure.RECIPE
            Attempt.objects.filter(run=run, number=attempt).update(failure=kind)
        task_queue.send(names.DISPATCH, "")  # its place is free
    else:
        ended = Attempt.objects.get(run=run, number=attempt).state
        if ended != state:
            raise Conflict(f"Attempt {attempt} of this run has already ended: {ended}.", field="state")
    return run


def _moment(run: Run, told: str | None) -> datetime:
    """When it was that a trainer elsewhere tells of; not later than now."""
    now = timezone.now()
    return now if told is None or run.origin != Run.Origin.TRACKED else min(datetime.fromisoformat(told), now)


def _who_stopped(run: Run, attempt: int) -> str:
    """A driver that stops knows only that it was asked to."""
    asked = Run.objects.filter(pk=run.pk, attempt_number=attempt, state=State.STOPPING)
    return outbox.once_stopped(asked.values_list("state_reason", flat=True).first() or "")


def ensure_attempts(run: Run, wanted: dict[int, str]) -> None:
    """Check that the run has these attempts (number -> field to blame). A tracked run gets what it lacks.

    Raises InvalidInput.
    """
    if not wanted:
        return
    statement = "SELECT number FROM runs_attempt WHERE run_id = %s AND number = ANY(%s)"
    known = {number for (number,) in rows_of(statement, [run.pk, list(wanted)])}  # for each batch of records
    for number, field in sorted(wanted.items()):
        if number in known:
            continue
        if run.origin == Run.Origin.LAUNCHED or not 1 <= number <= MAX_ATTEMPT:
            raise InvalidInput(field, f"{field}: this run has no attempt {number}.")
        take_over(run, number)


@transaction.atomic
def extend_run(run: Run, budget_hours: float, *, user: User | None) -> Run:
    """From now on the run may use `budget_hours` device-hours in all. Its driver learns of it between two updates;
    an ended run can be resumed to it.

    Raises InvalidInput (budget_hours) where that is not above
    the budget, or not above what is spent, or the project's quota does not reach; Conflict for a draft, a tracked run,
    or where somebody else changed the budget at the same time.
    """
    if run.origin == Run.Origin.TRACKED or run.budget_hours is None:
        raise Conflict("This run trains elsewhere; its budget is set there.")
    if run.state == State.DRAFT:
        raise Conflict("This run is a draft; launch it with the budget that it should have.")
    before = run.budget_hours
    _check(run, before, budget_hours)
    places.check_quota(run.project, budget_hours - before)
    config = run.config | {"budget": (run.config.get("budget") or {}) | {"device_hours": budget_hours}}
    mine = Run.objects.filter(pk=run.pk, budget_hours=before)
    changed = mine.update(budget_hours=budget_hours, config=config, version=F("version") + 1)
    run.refresh_from_db()
    if not changed:
        raise Conflict(
            f"Somebody else changed the budget meanwhile: it is {run.budget_hours:,.7g} device-hours now."
        )
    if run.state in ACTIVE:
        _tell_driver(run)
    record_run("run.extended", run, user, budget_hours=budget_hours, before=before)
    return run


def _check(run: Run, before: float, budget_hours: float) -> None:
    check_budget(budget_hours)
    used = used_hours(run)
    if budget_hours <= used:
        raise InvalidInput(
            "budget_hours", f"{used:.4g} device-hours are spent already: the budget must be above that."
        )
    if budget_hours <= before:
        raise InvalidInput(
            "budget_hours",
            f"The budget is {before:g} device-hours, of which {used:.4g} are spent; it can only be extended.",
        )


def _tell_driver(run: Run) -> None:
    """Through the outbox: the row is opened again where an earlier extension has closed it."""
    kind = Dispatch.Kind.BUDGET
    row, made = Dispatch.objects.get_or_create(run=run, attempt=run.attempt_number, kind=kind)
    if not made:
        Dispatch.objects.filter(pk=row.pk).update(done_at=None, claimed_until=None, created_at=timezone.now())
    task_queue.send(names.DISPATCH, run.pk)


@transaction.atomic
def retry_failed(alive: Collection[str]) -> int:
    """Queue the next attempt of every run whose infrastructure failed; how many. A constant number of statements.

    `alive`: submission ids of the jobs that Ray has, which are taken back instead.
    """
    if not (rows := [row for row in _candidates() if row[5] not in alive]):
        return 0
    now, wanted, due = timezone.now(), [], {}
    for run_id, attempt, retries, limit, message, _ in rows:
        wait = wait_after(retries + 1, first=FIRST_WAIT, longest=LONGEST_WAIT, factor=3)
        due[run_id] = (attempt + 1, now + wait)
        why = f"Retry {retries + 1} of {limit} in {wait.total_seconds():.0f} s, from the newest checkpoint"
        wanted.append((run_id, attempt, f"{why}: {message}"[:2000]))
    queued = queue_next_attempts(wanted, leaving=RETRIED, is_retry=True, part=RECONCILIATION)
    submit = Dispatch.Kind.SUBMIT
    Dispatch.objects.bulk_create(
        Dispatch(run_id=run_id, attempt=due[run_id][0], kind=submit, claimed_until=due[run_id][1])
        for run_id in queued
    )
    return len(queued)


@transaction.atomic
def go_on() -> int:
    """Queue the next attempt of every run that has stepped back; how many. A constant number of statements."""
    stepped_back = Attempt.objects.filter(
        failure=Attempt.Failure.STEPPED_BACK,
        state=State.CANCELLED,
        ended_at__gt=timezone.now() - TOO_LATE,
        number=F("run__attempt_number"),
        run__state=State.CANCELLED,
        run__archived_at=None,
    )
    rows = list(stepped_back.values_list("run_id", "number"))
    wanted = [(run_id, attempt, "It stepped back for a run of higher priority") for run_id, attempt in rows]
    queued = queue_next_attempts(wanted, leaving=frozenset({State.CANCELLED}), part=RECONCILIATION)
    Dispatch.objects.bulk_create(
        Dispatch(run_id=run_id, attempt=attempt + 1, kind=Dispatch.Kind.SUBMIT)
        for run_id, attempt in rows
        if run_id in queued
    )
    return len(queued)


def is_retry_wanted() -> bool:
    """Whether a run waits for its retry, be it the only one. One query."""
    return bool(_candidates())


def _candidates() -> list[tuple[str, int, int, int, str, str]]:
    """(run, attempt, retries so far, their limit, why it ended, submission id). One query."""
    stop = Dispatch.objects.filter(run=OuterRef("run"), attempt=OuterRef("number"), kind=Dispatch.Kind.STOP)
    limit = Coalesce(F("run__retry_limit"), Value(settings.RETRIES))
    failed = Attempt.objects.filter(
        state__in=RETRIED,
        failure=Attempt.Failure.INFRASTRUCTURE,
        ended_at__gt=timezone.now() - TOO_LATE,
        number=F("run__attempt_number"),
        run__state__in=RETRIED,
        run__origin=Run.Origin.LAUNCHED,
        run__archived_at=None,
        run__retries__lt=limit,
    ).exclude(run__summary__used_hours__gte=F("run__budget_hours") * SPENT_SHARE)
    rows = failed.annotate(limit=limit).filter(~Exists(stop)).order_by("id")
    names = ("run_id", "number", "run__retries", "limit", "message", "submission_id")
    return list(rows.values_list(*names))
