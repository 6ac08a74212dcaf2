"""Brings the store in step with Ray and finds work whose hint was lost. Runs every two seconds; may be repeated."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connection
from django.utils import timezone

from webapp.health.services import forget_old_workers, note_round
from webapp.runs import lifecycle
from webapp.runs.models import Run
from webapp.secrets.services import purge_retired
from worker.alarms import judge_or_wait
from worker.alerting import deliver_wanted, fire_wanted
from worker.cleaning import watch_disk_now
from worker.cluster import look_at_cluster
from worker.dispatch import send_dispatches
from worker.logs import keep_logs
from worker.policies import act_on_overlooked
from worker.predictions import score_overdue
from worker.ray_jobs import RayJobs, RayUnreachable, connect
from worker.refits import refit_or_wait

log = logging.getLogger(__name__)

ADVISORY_LOCK = 0x48454144  # "HEAD"
MAX_REFITS = MAX_JUDGED = 20  # a round; the others follow two seconds later


def reconcile_all() -> bool:
    """One round: dispatch rows, jobs, refits, alarms, scores. False when another worker is at it."""
    with _only_one() as alone:
        if not alone:
            return False
        began_at = timezone.now()
        failures = {step.__name__: why for step in STEPS if (why := _guarded(step))}
        note_round(began_at, failures)
        return True


@contextmanager
def _only_one() -> Iterator[bool]:
    """A PostgreSQL advisory lock, so that a slow round is not overtaken by the next."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [ADVISORY_LOCK])
        (alone,) = cursor.fetchone()
        try:
            yield alone
        finally:
            if alone:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [ADVISORY_LOCK])


def _guarded(step: Callable[[], int]) -> str:
    """One step's trouble does not keep the others from their work. The kind of what went wrong; empty where nothing."""
    try:
        step()
    except Exception as error:
        log.exception("reconciliation: %s", step.__name__)
        return f"{type(error).__name__}; the worker's log says more"
    return ""


def observe_jobs() -> int:
    """Tell the store what Ray says of each unfinished attempt; returns how many were asked about."""
    attempts = lifecycle.unfinished_attempts()
    if not attempts:
        return 0
    try:
        with connect() as jobs:
            for attempt in attempts:
                _observe(jobs, attempt)
    except RayUnreachable as error:  # says nothing about the jobs: heartbeats may still come
        log.warning("reconciliation: %s", error)
        return 0
    return len(attempts)


def _observe(jobs: RayJobs, attempt: lifecycle.Unfinished) -> None:
    job = jobs.status(attempt.submission_id)
    if job is None:
        lifecycle.observe_job(run_id=attempt.run_id, attempt=attempt.attempt, job_status=None)
        return
    lifecycle.observe_job(
        run_id=attempt.run_id,
        attempt=attempt.attempt,
        job_status=job.status,
        message=job.message if job.status in ("PENDING", "FAILED") else "",
        log_tail=jobs.log_tail(attempt.submission_id, job.node_id) or None,
    )


def refit_wanted() -> int:
    """Refit the runs whose wish is still open; returns how many were looked at."""
    wanted = Run.objects.filter(refit_wanted_at__isnull=False).order_by("refit_wanted_at")
    run_ids = list(wanted.values_list("pk", flat=True)[:MAX_REFITS])
    for run_id in run_ids:
        refit_or_wait(run_id)
    return len(run_ids)


def judge_wanted() -> int:
    """Judge the runs whose newest records wait for it; returns how many were looked at."""
    wanted = Run.objects.filter(alarms_wanted_at__isnull=False).order_by("alarms_wanted_at")
    run_ids = list(wanted.values_list("pk", flat=True)[:MAX_JUDGED])
    for run_id in run_ids:
        judge_or_wait(run_id)
    return len(run_ids)


# In the order of what matters to a run: it is started, followed, then judged; then people are told.
STEPS: tuple[Callable[[], int], ...] = (
    send_dispatches,
    observe_jobs,
    keep_logs,
    refit_wanted,
    judge_wanted,
    act_on_overlooked,
    score_overdue,
    fire_wanted,
    deliver_wanted,
    purge_retired,
    watch_disk_now,
    look_at_cluster,
    forget_old_workers,
)
