"""What the cluster shows of the runs: compared with what is stored, from any state, in a constant number of queries.

`verdict` says for one attempt what should become of it; it is pure. `observe` has that done for all of them at once.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from signal import Signals

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, Subquery
from django.db.models.functions import Greatest
from django.utils import timezone

from webapp.identity.secrets.services import redact_many
from webapp.record.runs import outbox
from webapp.record.runs.models import Attempt, Dispatch, Run, State
from webapp.record.runs.states import ACTIVE, ENDED, RECONCILIATION, Move, move_many

LOST_AFTER = timedelta(
    seconds=45
)  # without a sign of life, of a job that Ray does not know or cannot be asked about
LOST_IS_LOOKED_AT = timedelta(days=1)  # so long a lost run whose job turns up again is taken back
SILENT_AFTER = timedelta(minutes=5)  # so long nobody is told that a trainer elsewhere says nothing
ORPHAN_AFTER = timedelta(minutes=2)  # so long a job may take to end after its attempt has
BEGINS = "Ray starts its job."
LOADS = "Its job has begun: it makes or loads the model."
RAY_WAITS = "Job has not started yet"  # and more that tells a reader nothing
ALIVE = frozenset({"PENDING", "RUNNING"})
LOG_TAIL_CHARACTERS = 64 * 1024
EXIT_CODE = re.compile(r"exit code (-?\d+)")
LOG_BEGINS = ", last available logs"  # in Ray's message: then up to 20,000 characters of it
DRIVER_SAYS = "error: "  # how its last line begins (`training.__main__`)
SHELL_SAYS_SIGNAL = 128  # and the signal's number; a process that was killed itself has its negative
SIGNALS = frozenset(Signals)
EXIT_INFRASTRUCTURE = 75  # EX_TEMPFAIL: what the driver ends with where the same again may go through
FAILURE = Attempt.Failure


@dataclass(frozen=True)
class JobStatus:
    """What Ray says of a job: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED."""

    status: str
    message: str = ""
    node_id: str | None = None  # where the driver runs
    job_id: str | None = None  # of Ray's own; it owns what the driver reserves


@dataclass(frozen=True)
class Unfinished:
    """An attempt that is to be compared with its job. `heard_at`: the last sign of life, of whatever kind."""

    run_id: str
    project_id: int
    attempt: int
    submission_id: str
    state: str
    reason: str  # of the run
    heard_at: datetime
    is_unsent: bool  # its submission has not been settled


@dataclass(frozen=True)
class Verdict:
    """What should become of an attempt. `to` None: only the reason changes. `sent`: Ray has it, do not submit it."""

    to: State | None
    reason: str = ""
    failure: str = ""
    sent: bool = False


# --- deciding -------------------------------------------------------------------------------------------------


def verdict(
    row: Unfinished, job: JobStatus | None, now: datetime, *, answered: bool = True
) -> Verdict | None:
    """What Ray's word on its job means for an attempt (job None: Ray does not know it); None: nothing.

    With `answered` False Ray could not be asked at all: then only silence says something, and only of a run that had
    spoken.
    """
    if not answered:
        silent = row.state == State.RUNNING and now - row.heard_at > LOST_AFTER
        return _lost("Ray cannot be asked") if silent else None
    if job is None:
        return _of_unknown_job(row, now)
    if job.status in ALIVE:
        return _of_living_job(row, job)
    if job.status == "FAILED":
        return Verdict(State.FAILED, reason_of(job.message), failure_of(job.message), sent=True)
    if job.status == "STOPPED" or (job.status == "SUCCEEDED" and row.state == State.STOPPING):
        return Verdict(
            State.CANCELLED, _stop_reason(row), sent=True
        )  # exit status 0 after a stop is the stop
    return Verdict(State.SUCCEEDED, sent=True) if job.status == "SUCCEEDED" else None


def failure_of(message: str) -> str:
    """Whether a failed job may go through when it is run again, by what Ray says of it.

    The driver ends with status 1 for a failure of the recipe. Its own word for trouble of the machines, a signal, and
    an end of which Ray gives no exit code (its node or supervisor is gone) are failures of the infrastructure.
    """
    code = _exit_code(message)
    is_recipe = code is not None and 0 < code <= 128 and code != EXIT_INFRASTRUCTURE
    return FAILURE.RECIPE if is_recipe or not message.strip() else FAILURE.INFRASTRUCTURE


def reason_of(message: str) -> str:
    """What Ray says of a failed job, for people. Of a driver that was killed that alone, without the log's end, which
    tells what it was doing and not what ended it; of one that ended itself its last line, where that says why."""
    code = _exit_code(message)
    number = 0 if code is None else -code if code < 0 else code - SHELL_SAYS_SIGNAL
    if number not in SIGNALS:
        return _last_word(message) or message.strip() or "The job failed without a message."
    said = message.partition(LOG_BEGINS)[0].strip().removesuffix(".")
    return f"The driver process was killed by signal {number} ({Signals(number).name}). Ray says: {said}."


def _last_word(message: str) -> str:
    """Why the driver ended, as its last line says it; empty where that is none of its own."""
    last = last_line(message.partition(LOG_BEGINS)[2])
    return last.removeprefix(DRIVER_SAYS) if last.startswith(DRIVER_SAYS) else ""


def _exit_code(message: str) -> int | None:
    found = EXIT_CODE.search(message)
    return int(found[1]) if found else None


def _of_unknown_job(row: Unfinished, now: datetime) -> Verdict | None:
    if row.is_unsent or row.state in (State.QUEUED, State.LOST):
        return None
    if row.state == State.STOPPING:
        return Verdict(State.CANCELLED, "Cancelled; its job is gone.")
    return _lost("Ray does not know its job any more") if now - row.heard_at > LOST_AFTER else None


def _lost(why: str) -> Verdict:
    seconds = f"{LOST_AFTER.total_seconds():.0f}"
    return Verdict(
        State.LOST, f"{why}, and nothing was heard from it for {seconds} s.", FAILURE.INFRASTRUCTURE
    )


def _of_living_job(row: Unfinished, job: JobStatus) -> Verdict | None:
    """One that we thought queued, in hand-over or lost is taken back."""
    text = LOADS
    if job.status == "PENDING":
        text = BEGINS if job.message.startswith(RAY_WAITS) else job.message.strip()
    if row.state in (State.QUEUED, State.SUBMITTING, State.LOST):
        return Verdict(State.STARTING, text, sent=True)
    if row.state == State.STARTING and text != row.reason:
        return Verdict(None, text)
    return None


def _stop_reason(row: Unfinished) -> str:
    """Who asked for it, as `cancel_run` wrote it down; nobody did where the job was stopped behind our back."""
    if row.state == State.STOPPING:
        return outbox.once_stopped(row.reason)
    return "Its job was stopped on the cluster."


# --- reading --------------------------------------------------------------------------------------------------


def unfinished_attempts() -> list[Unfinished]:
    """Every attempt on the cluster that has not ended or was lost lately, oldest first. One query."""
    lost = Q(state=State.LOST, number=F("run__attempt_number"))
    lost &= Q(ended_at__gt=timezone.now() - LOST_IS_LOOKED_AT)
    submit = Dispatch.objects.filter(
        run=OuterRef("run"), attempt=OuterRef("number"), kind=Dispatch.Kind.SUBMIT
    )
    heard = Greatest("created_at", "started_at", "run__heartbeat_at", Subquery(submit.values("done_at")[:1]))
    rows = Attempt.objects.filter(Q(state__in=ACTIVE) | lost, run__origin=Run.Origin.LAUNCHED)
    rows = rows.annotate(heard_at=heard, is_unsent=Exists(submit.filter(done_at=None))).order_by("id")
    names = ("run_id", "run__project_id", "number", "submission_id", "state", "run__state_reason")
    return [Unfinished(*row) for row in rows.values_list(*names, "heard_at", "is_unsent")]


# --- doing ----------------------------------------------------------------------------------------------------


def observe(
    rows: Iterable[Unfinished],
    jobs: Mapping[str, JobStatus] | None,
    last_lines: Mapping[str, str] | None = None,
) -> int:
    """Bring attempts in line with what Ray says of all jobs (by submission id; None: it could not be asked).

    `last_lines` (submission id -> text) stand in for the message of a job that failed without one. Safe to repeat.
    Returns how many attempts were moved.
    """
    now, lines = timezone.now(), last_lines or {}
    decided: list[tuple[Unfinished, Verdict]] = []
    for row in rows:
        job = jobs.get(row.submission_id) if jobs is not None else None
        found = verdict(row, job, now, answered=jobs is not None)
        if found is not None and job is not None and job.status == "FAILED" and not job.message.strip():
            found = replace(found, reason=lines.get(row.submission_id) or found.reason)
        if found is not None and found.to != row.state:
            decided.append((row, found))
    return _carry_out(_cleaned(decided))


def _cleaned(decided: list[tuple[Unfinished, Verdict]]) -> list[tuple[Unfinished, Verdict]]:
    """Without the values of secrets, which Ray's messages may hold."""
    texts = redact_many([(row.project_id, found.reason.replace("\0", "")) for row, found in decided])
    return [(row, replace(found, reason=text)) for (row, found), text in zip(decided, texts, strict=True)]


@transaction.atomic
def _carry_out(decided: list[tuple[Unfinished, Verdict]]) -> int:
    """A statement for each kind of change, whatever their number."""
    moves = [Move(row.run_id, row.attempt, found.to, found.reason) for row, found in decided if found.to]
    moved = move_many(moves, part=RECONCILIATION)
    _tell([(row, found.reason) for row, found in decided if found.to is None])
    _close_sent([row for row, found in decided if found.sent and (row.run_id, row.attempt) in moved])
    for kind in FAILURE.values:
        of_kind = [
            row.submission_id
            for row, found in decided
            if found.failure == kind and (row.run_id, row.attempt) in moved
        ]
        if of_kind:
            Attempt.objects.filter(submission_id__in=of_kind, state__in=ENDED).update(failure=kind)
    return len(moved)


def _tell(reasons: list[tuple[Unfinished, str]]) -> None:
    """Why a job does not start yet; one statement for each text."""
    by_text: dict[str, list[str]] = {}
    for row, text in reasons:
        by_text.setdefault(text, []).append(row.run_id)
    for text, run_ids in by_text.items():
        starting = Run.objects.filter(pk__in=run_ids, state=State.STARTING).exclude(state_reason=text)
        starting.update(state_reason=text, version=F("version") + 1)


def _close_sent(rows: list[Unfinished]) -> None:
    """What Ray has need not be submitted."""
    by_attempt: dict[int, list[str]] = {}
    for row in rows:
        if row.is_unsent:
            by_attempt.setdefault(row.attempt, []).append(row.run_id)
    for attempt, run_ids in by_attempt.items():
        Dispatch.objects.filter(
            run__in=run_ids, attempt=attempt, kind=Dispatch.Kind.SUBMIT, done_at=None
        ).update(done_at=timezone.now(), claimed_until=None, error="")


def stop_orphans(jobs: Mapping[str, JobStatus], known: Iterable[Unfinished]) -> int:
    """Ask for the end of jobs whose attempts ended a while ago (cancelled while they were handed over, followed by a
    later attempt, hanging after their last word); how many. Two queries at most. Jobs of others are left alone."""
    alive = {name for name, job in jobs.items() if job.status in ALIVE} - {row.submission_id for row in known}
    if not alive:
        return 0
    over = Attempt.objects.filter(
        submission_id__in=alive, state__in=ENDED, ended_at__lt=timezone.now() - ORPHAN_AFTER
    )
    stop = Dispatch.objects.filter(run=OuterRef("run"), attempt=OuterRef("number"), kind=Dispatch.Kind.STOP)
    rows = over.annotate(has_stop=Exists(stop)).values_list("run_id", "number", "has_stop")
    wanted = [Dispatch(run_id=run, attempt=n, kind=Dispatch.Kind.STOP) for run, n, has in rows if not has]
    return len(Dispatch.objects.bulk_create(wanted, ignore_conflicts=True))


def lose_silent_trackers() -> int:
    """Tracked runs from which nothing was heard for `TRACKED_LOST_MINUTES` are lost until they speak; how many."""
    silence = timedelta(minutes=settings.TRACKED_LOST_MINUTES)
    silent = Run.objects.annotate(heard=Greatest("created_at", "started_at", "heartbeat_at")).filter(
        origin=Run.Origin.TRACKED, state=State.RUNNING, heard__lt=timezone.now() - silence
    )
    reason = _unheard(settings.TRACKED_LOST_MINUTES)
    moves = [
        Move(run_id, attempt, State.LOST, reason)
        for run_id, attempt in silent.values_list("pk", "attempt_number")
    ]
    return len(move_many(moves, part=RECONCILIATION))


def silence_of(run: Run) -> str:
    """That nothing is heard from the trainer of a run that trains elsewhere, before it counts as lost."""
    heard = run.heartbeat_at or run.started_at
    silence = timezone.now() - heard if heard else timedelta()
    if run.origin != Run.Origin.TRACKED or run.state != State.RUNNING or silence < SILENT_AFTER:
        return ""
    after = f"After {settings.TRACKED_LOST_MINUTES:g} minutes it counts as lost."
    return f"{_unheard(silence // timedelta(minutes=1))} {after}"


def _unheard(minutes: float) -> str:
    return f"Nothing was heard from its trainer for {minutes:g} {'minute' if minutes == 1 else 'minutes'}."


# --- logs -----------------------------------------------------------------------------------------------------


def keep_logs(tails: Mapping[str, str]) -> int:
    """Submission id -> the end of its log, for the attempt's page; how many changed."""
    attempts = Attempt.objects.filter(submission_id__in=tails).select_related("run")
    found = list(attempts.defer("run__config"))
    texts = redact_many([(row.run.project_id, tails[row.submission_id].replace("\0", "")) for row in found])
    now, changed = timezone.now(), []
    for row, text in zip(found, texts, strict=True):
        tail = text[-LOG_TAIL_CHARACTERS:]
        if tail and tail != row.log_tail:
            changed.append(row.run_id)
            row.log_tail = tail
        row.log_read_at = now
    Attempt.objects.bulk_update(found, ["log_tail", "log_read_at"])
    Run.objects.filter(pk__in=changed).update(version=F("version") + 1)
    return len(changed)


def logs_wanted(most: int) -> list[str]:
    """Submission ids of the attempts whose log should be read next: those that ended since, then the longest unread."""
    ended = Q(state__in=ENDED, ended_at__gt=timezone.now() - LOST_IS_LOOKED_AT)
    ended &= Q(log_read_at=None) | Q(log_read_at__lt=F("ended_at"))
    at_work = Q(state__in=(State.STARTING, State.RUNNING, State.STOPPING))
    rows = Attempt.objects.filter(ended | at_work, run__origin=Run.Origin.LAUNCHED)
    in_order = rows.order_by(
        F("ended_at").desc(nulls_last=True), F("log_read_at").asc(nulls_first=True), "id"
    )
    return list(in_order.values_list("submission_id", flat=True)[:most])


def last_line(log_tail: str) -> str:
    """The last line of a log that says something."""
    lines = [line for line in log_tail.splitlines() if line.strip()]
    return lines[-1].strip()[:1000] if lines else ""
