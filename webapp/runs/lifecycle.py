"""What happens to a run after its launch: claimed, submitted, reported, observed on the cluster, cancelled."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from webapp import nudge
from webapp.accounts.models import User
from webapp.accounts.permissions import Permission, require
from webapp.audit.services import record
from webapp.errors import Conflict, InvalidInput
from webapp.runs.models import Attempt, Dispatch, Run, State
from webapp.runs.states import ACTIVE, ENDED, bump, move, take_over
from webapp.secrets.services import redact
from worker import names

CLAIM = timedelta(seconds=60)
FIRST_RETRY = timedelta(seconds=2)
LOST_AFTER = timedelta(seconds=60)  # without a heartbeat, of a job that Ray does not know
LOG_TAIL_CHARACTERS = 64 * 1024
MAX_ATTEMPT = 32767
REPORTED_ENDS = (State.SUCCEEDED, State.FAILED, State.CANCELLED)


@dataclass(frozen=True)
class Unfinished:
    """An attempt whose job must be looked at."""

    run_id: str
    attempt: int
    submission_id: str
    state: str


# --- dispatch -------------------------------------------------------------------------------------------------


def claim_dispatches(*, run_id: str | None = None, limit: int = 20) -> list[Dispatch]:
    """Take dispatch rows to work on for 60 s; a claim that ran out may be taken over.

    Each is claimed by a conditional UPDATE, so that of two workers one gets it. A stop waits until the submission
    of the same attempt is settled. Rows that have become pointless (cancelled before they were sent) are closed.
    """
    now = timezone.now()
    free = Q(done_at=None) & (Q(claimed_until=None) | Q(claimed_until__lt=now))
    unsent = Dispatch.objects.filter(
        run=OuterRef("run"), attempt=OuterRef("attempt"), kind=Dispatch.Kind.SUBMIT, done_at=None
    )
    candidates = Dispatch.objects.filter(free).exclude(Q(Exists(unsent), kind=Dispatch.Kind.STOP))
    if run_id is not None:
        candidates = candidates.filter(run_id=run_id)
    claimed = []
    for dispatch in candidates.select_related("run__project").order_by("id")[:limit]:
        if _claim(dispatch, free, now):
            claimed.append(dispatch)
    return claimed


@transaction.atomic
def _claim(dispatch: Dispatch, free: Q, now: datetime) -> bool:
    taken = Dispatch.objects.filter(free, pk=dispatch.pk).update(
        claimed_until=now + CLAIM, tries=F("tries") + 1
    )
    if not taken:
        return False
    dispatch.refresh_from_db(fields=["claimed_until", "tries"])
    if dispatch.kind == Dispatch.Kind.STOP or _ready_to_submit(dispatch):
        return True
    _close(dispatch, error="not sent: the run did not want it any more")
    return False


def _ready_to_submit(dispatch: Dispatch) -> bool:
    run, attempt = dispatch.run, dispatch.attempt
    if move(run, State.SUBMITTING, attempt=attempt):
        return True
    run.refresh_from_db()  # taken over from a worker that died between claim and submission
    return run.state == State.SUBMITTING and run.attempt_number == attempt


@transaction.atomic
def dispatch_done(dispatch: Dispatch) -> None:
    """Ray Jobs took the submission (or the stop). Safe to repeat."""
    if _close(dispatch) and dispatch.kind == Dispatch.Kind.SUBMIT:
        move(dispatch.run, State.STARTING, attempt=dispatch.attempt)
        nudge.send(names.DISPATCH, dispatch.run_id)  # a stop may have waited for this


@transaction.atomic
def dispatch_failed(dispatch: Dispatch, error: str, *, retry: bool) -> None:
    """Ray Jobs did not take it. With `retry` it waits a while, doubling up to a minute; else the run has failed."""
    text = redact(dispatch.run.project_id, error.replace("\0", "").strip()) or "unknown error"
    if not retry:
        if _close(dispatch, error=text) and dispatch.kind == Dispatch.Kind.SUBMIT:
            move(
                dispatch.run, State.FAILED, attempt=dispatch.attempt, reason=f"Could not be submitted: {text}"
            )
        return
    wait = min(CLAIM, FIRST_RETRY * 2 ** min(dispatch.tries, 10))
    Dispatch.objects.filter(pk=dispatch.pk, done_at=None).update(
        claimed_until=timezone.now() + wait, error=text
    )
    if dispatch.kind == Dispatch.Kind.SUBMIT:
        reason = f"Could not be submitted, will be tried again: {text}"
        move(dispatch.run, State.QUEUED, attempt=dispatch.attempt, reason=reason)


def _close(dispatch: Dispatch, error: str = "") -> bool:
    changed = Dispatch.objects.filter(pk=dispatch.pk, done_at=None).update(
        done_at=timezone.now(), claimed_until=None, error=error
    )
    return bool(changed)


# --- what people ask for --------------------------------------------------------------------------------------


@transaction.atomic
def cancel_run(run: Run, *, user: User | None, reason: str = "") -> Run:
    """Stop the run: at once while it is queued or tracked, else by asking its job to stop. Safe to repeat.

    `reason`: why, in words without a full stop, where it is not that a person wanted it. A person needs LAUNCH. Raises
    Forbidden or NotFound without it, and Conflict where the run has ended otherwise.
    """
    if user is not None:
        require(user, run.project, Permission.LAUNCH)
    attempt = run.attempt_number
    by = reason.replace(";", ",") or (f"Cancelled by {user}" if user is not None else "Cancelled")
    direct = {State.QUEUED} if run.origin == Run.Origin.LAUNCHED else {State.RUNNING}
    if move(run, State.CANCELLED, attempt=attempt, reason=f"{by}.", leaving=direct):
        Dispatch.objects.filter(run=run, attempt=attempt, done_at=None).update(
            done_at=timezone.now(), error="not sent: the run was cancelled"
        )
        _record_stop(run, user)
    elif move(run, State.STOPPING, attempt=attempt, reason=f"{by}; waits for its job to stop."):
        Dispatch.objects.get_or_create(run=run, attempt=attempt, kind=Dispatch.Kind.STOP)
        nudge.send(names.DISPATCH, run.pk)
        _record_stop(run, user)
    else:
        run.refresh_from_db()
        if run.state in ENDED - {State.CANCELLED}:
            raise Conflict(f"This run has already ended: {run.state}.")
        if run.state not in (State.STOPPING, State.CANCELLED):
            raise Conflict("This run changed its state meanwhile; try again.")
    return run


def _record_stop(run: Run, user: User | None) -> None:
    record("run.stopped", actor=user, project=run.project, kind="run", key=run.pk, name=run.name)


# --- what the trainer reports ---------------------------------------------------------------------------------


@transaction.atomic
def report_started(
    run: Run, *, attempt: int, resumed_from_step: int | None = None, device: Any = None
) -> Run:
    """The attempt's trainer is up. Points of earlier attempts past `resumed_from_step` are superseded from now on;
    where it is None the attempt began anew and supersedes them all. Safe to repeat.

    Raises InvalidInput where the run has no such attempt.
    """
    ensure_attempts(run, {attempt: "attempt"})
    now = timezone.now()
    fresh = Attempt.objects.filter(run=run, number=attempt, started_at=None).update(
        started_at=now, resumed_from_step=resumed_from_step, device=device
    )
    moved = move(run, State.RUNNING, attempt=attempt, started_at=run.started_at or now, heartbeat_at=now)
    if fresh:
        refit = {"refit_wanted_at": now, "alarms_wanted_at": now} if attempt > 1 else {}
        bump(run.pk, heartbeat_at=now, **refit)
        if refit:
            nudge.send(names.REFIT, run.pk)
    if fresh or moved:
        run.refresh_from_db()
    return run


def report_finished(run: Run, *, attempt: int, state: str, message: str = "") -> Run:
    """The attempt's trainer says how it ended: succeeded, failed or cancelled. Safe to repeat.

    Raises InvalidInput for another state or attempt, Conflict where the attempt has ended in another way.
    """
    if state not in REPORTED_ENDS:
        raise InvalidInput("state", f"state must be one of {', '.join(REPORTED_ENDS)}.")
    ensure_attempts(run, {attempt: "attempt"})
    reason = redact(run.project_id, message.replace("\0", ""))[:10_000]
    if not move(run, State(state), attempt=attempt, reason=reason):
        ended = Attempt.objects.get(run=run, number=attempt).state
        if ended != state:
            raise Conflict(f"Attempt {attempt} of this run has already ended: {ended}.", field="state")
    return run


def ensure_attempts(run: Run, wanted: dict[int, str]) -> None:
    """Check that the run has these attempts (number -> field to blame). A tracked run gets what it lacks.

    Raises InvalidInput.
    """
    known = set(Attempt.objects.filter(run=run, number__in=wanted).values_list("number", flat=True))
    for number, field in sorted(wanted.items()):
        if number in known:
            continue
        if run.origin == Run.Origin.LAUNCHED or not 1 <= number <= MAX_ATTEMPT:
            raise InvalidInput(field, f"{field}: this run has no attempt {number}.")
        take_over(run, number)


# --- what the cluster shows -----------------------------------------------------------------------------------


def unfinished_attempts() -> list[Unfinished]:
    """Every attempt on the cluster that has not ended, oldest first."""
    rows = Attempt.objects.filter(
        run__origin=Run.Origin.LAUNCHED, state__in=ACTIVE - {State.QUEUED}
    ).order_by("id")
    return [
        Unfinished(row.run_id, row.number, row.submission_id, row.state) for row in rows.defer("log_tail")
    ]


def observe_job(
    *, run_id: str, attempt: int, job_status: str | None, message: str = "", log_tail: str | None = None
) -> None:
    """Bring run and attempt in line with what Ray says of the job (None: Ray does not know it). Safe to repeat."""
    run = Run.objects.get(pk=run_id)
    text = redact(run.project_id, message.replace("\0", "").strip())
    if log_tail is not None:
        log_tail = redact(run.project_id, log_tail.replace("\0", ""))
    _keep_log(run, attempt, log_tail)
    if job_status is None:
        _observe_unknown_job(run, attempt)
    elif job_status == "PENDING":
        _observe_waiting_job(run, attempt, text)
    elif job_status == "RUNNING":
        move(run, State.STARTING, attempt=attempt)
    elif job_status == "FAILED":
        reason = text or _last_line(log_tail) or "The job failed without a message."
        move(run, State.FAILED, attempt=attempt, reason=reason)
    elif job_status == "STOPPED":
        move(run, State.CANCELLED, attempt=attempt, reason=_stop_reason(run))
    elif job_status == "SUCCEEDED":  # exit status 0 after a stop request is the stop
        stopping = {State.STOPPING}
        if not move(run, State.CANCELLED, attempt=attempt, leaving=stopping, reason=_stop_reason(run)):
            move(run, State.SUCCEEDED, attempt=attempt)


def _keep_log(run: Run, attempt: int, log_tail: str | None) -> None:
    if log_tail is None:
        return
    tail = log_tail[-LOG_TAIL_CHARACTERS:]
    changed = Attempt.objects.filter(run=run, number=attempt).exclude(log_tail=tail).update(log_tail=tail)
    if changed:
        bump(run.pk)


def _observe_waiting_job(run: Run, attempt: int, text: str) -> None:
    move(run, State.STARTING, attempt=attempt, reason=text)
    Run.objects.filter(pk=run.pk, attempt_number=attempt, state=State.STARTING).exclude(
        state_reason=text
    ).update(state_reason=text, version=F("version") + 1)


def _observe_unknown_job(run: Run, attempt: int) -> None:
    row = Attempt.objects.get(run=run, number=attempt)
    if row.state == State.STOPPING:
        move(run, State.CANCELLED, attempt=attempt, reason="Cancelled; its job is gone.")
        return
    unsent = Dispatch.objects.filter(run=run, attempt=attempt, kind=Dispatch.Kind.SUBMIT, done_at=None)
    if row.state in ENDED or unsent.exists():
        return
    last_sign = max(t for t in (row.created_at, row.started_at, _dispatched_at(row), run.heartbeat_at) if t)
    if timezone.now() - last_sign > LOST_AFTER:
        seconds = f"{LOST_AFTER.total_seconds():.0f}"
        reason = f"Ray does not know its job any more, and nothing was heard from it for {seconds} s."
        move(run, State.LOST, attempt=attempt, reason=reason)


def _dispatched_at(row: Attempt) -> datetime | None:
    done = Dispatch.objects.filter(run_id=row.run_id, attempt=row.number, kind=Dispatch.Kind.SUBMIT)
    return done.values_list("done_at", flat=True).first()


def _stop_reason(run: Run) -> str:
    """Who asked for it, as `cancel_run` wrote it down; nobody did where the job was stopped behind our back."""
    if run.state == State.STOPPING:
        return run.state_reason.split(";")[0] + "."
    return "Its job was stopped on the cluster."


def _last_line(log_tail: str | None) -> str:
    lines = [line for line in (log_tail or "").splitlines() if line.strip()]
    return lines[-1].strip()[:1000] if lines else ""
