"""Brings the store in step with Ray and finds work whose hint was lost. Runs every two seconds; may be repeated."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from django.db import connection
from django.utils import timezone

from webapp.runs import observation, places, retrying
from webapp.runs.models import ClusterSight, Run
from webapp.runs.observation import JobStatus
from webapp.secrets.services import purge_retired
from worker.alarms import judge_or_wait
from worker.alerting import deliver_wanted, fire_wanted
from worker.dispatch import send_dispatches
from worker.predictions import score_overdue
from worker.ray_jobs import RayJobs, RayUnreachable, connect
from worker.refits import refit_or_wait

log = logging.getLogger(__name__)

ADVISORY_LOCK = 0x48454144  # "HEAD"
MAX_REFITS = MAX_JUDGED = 20  # a round; the others follow two seconds later
MAX_LOGS = 20  # a round; each is a request of its own
LOOK_EVERY = timedelta(seconds=15)  # at what the cluster has


def reconcile_all() -> bool:
    """One round: dispatch rows, jobs, refits, alarms, scores. False when another worker is at it."""
    with _only_one() as alone:
        if not alone:
            return False
        for step in (
            *(send_dispatches, observe_jobs, observation.lose_silent_trackers, places.tell_waiting),
            *(refit_wanted, judge_wanted, score_overdue),
            *(fire_wanted, deliver_wanted, purge_retired),
        ):
            _guarded(step)
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


def _guarded(step: Callable[[], int]) -> None:
    """One step's trouble does not keep the others from their work."""
    try:
        step()
    except Exception:
        log.exception("reconciliation: %s", step.__name__)


def observe_jobs() -> int:
    """Bring all unfinished attempts in line with Ray, retry what its infrastructure failed, keep logs.

    One listing of Ray's jobs and a constant number of queries, whatever the number of runs. Returns how many attempts
    were looked at. A Ray that cannot be asked says nothing about its jobs; that is remembered for the pages.
    """
    began, now = time.monotonic(), timezone.now()
    rows, seen = observation.unfinished_attempts(), places.sight()
    is_due = seen is None or seen.looked_at is None or now - seen.looked_at > LOOK_EVERY
    said: dict[str, object] = {"looked_at": now} if is_due else {}
    if rows or is_due:
        said["trouble"] = _look(rows, is_due)
    took = {"reconciled_at": timezone.now(), "seconds": time.monotonic() - began, "unfinished": len(rows)}
    _remember(said | took)
    return len(rows)


def _look(rows: list[observation.Unfinished], is_due: bool) -> str:
    """At the jobs of these attempts, and, where that is due, at what the cluster has; why Ray could not be asked."""
    try:
        with connect() as jobs:
            if rows:
                _compare(jobs, rows)
            elif observation.logs_wanted(1):  # of the last one that ended
                read_logs(jobs, jobs.all())
            if is_due and (amounts := jobs.amounts()) is not None:
                had = {"gpus": amounts.get("GPU", 0.0), "cpus": amounts.get("CPU", 0.0)}
                _remember({"seen_at": timezone.now()} | had)
    except RayUnreachable as error:
        if rows:
            log.warning("reconciliation: %s", error)
            observation.observe(rows, None)
        return str(error)
    return ""


def _remember(said: dict[str, object]) -> None:
    if not ClusterSight.objects.filter(pk=1).update(**said):
        ClusterSight.objects.get_or_create(pk=1, defaults=said)


def _compare(jobs: RayJobs, rows: list[observation.Unfinished]) -> None:
    known = jobs.all()
    observation.observe(rows, known, _last_lines(jobs, rows, known))
    retrying.retry_failed({name for name, job in known.items() if job.status in observation.ALIVE})
    observation.stop_orphans(known, rows)
    read_logs(jobs, known)


def _last_lines(
    jobs: RayJobs, rows: list[observation.Unfinished], known: Mapping[str, JobStatus]
) -> dict[str, str]:
    """Submission id -> the last line of its log, of jobs that failed without a message; of MAX_LOGS at most."""
    failed = {row.submission_id: known[row.submission_id] for row in rows if row.submission_id in known}
    silent = [(name, job) for name, job in failed.items() if job.status == "FAILED" and not job.message]
    return {name: observation.last_line(jobs.log_tail(name, job.node_id)) for name, job in silent[:MAX_LOGS]}


def read_logs(jobs: RayJobs, known: Mapping[str, JobStatus]) -> int:
    """Keep the ends of the logs that were not read for longest, MAX_LOGS at most; how many were read."""
    wanted = observation.logs_wanted(MAX_LOGS)
    tails = {name: jobs.log_tail(name, known[name].node_id) if name in known else "" for name in wanted}
    if tails:
        observation.keep_logs(tails)
    return len(tails)


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
