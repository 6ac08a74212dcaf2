"""Brings the store in step with Ray and finds work whose hint was lost. Runs every two seconds; may be repeated."""

import logging
from collections.abc import Callable, Mapping

from django.utils import timezone

from webapp.base.claims import only_one
from webapp.interfaces.tracking.client_runs import end_silent_trackio
from webapp.record.evaluations.queue import open_ones
from webapp.record.health.services import forget_old_workers, note_round
from webapp.record.runs import lifecycle, observation
from webapp.record.runs.models import Run
from webapp.record.runs.tokens import purge_retired
from worker.cluster import look_at_cluster, look_at_groups
from worker.dispatch import send_dispatches
from worker.evaluations import see_to_evaluations
from worker.followup import act_on_overlooked, judge_or_wait, judge_overdue, refit_or_wait, score_overdue
from worker.ray_jobs import RayJobs, RayUnreachable, connect
from worker.upkeep import deliver_wanted, fire_wanted, keep_logs, watch_disk_now, wish_example, wish_turns

log = logging.getLogger(__name__)

ADVISORY_LOCK = 0x48454144  # "HEAD"
MOST_SERVED = 20  # refitted, and as many judged, a round; the others follow two seconds later
MAX_LOGS = 20  # a round; each is a request of its own


def reconcile_all() -> bool:
    """One round: dispatch rows, jobs, refits, alarms, scores. False when another worker is at it."""
    with only_one(ADVISORY_LOCK) as alone:
        if not alone:
            return False
        began_at = timezone.now()
        failures = {step.__name__: why for step in STEPS if (why := _guarded(step))}
        note_round(began_at, failures)
        return True


def _guarded(step: Callable[[], int]) -> str:
    """One step's trouble does not keep the others from their work. The kind of what went wrong; empty where nothing."""
    try:
        step()
    except Exception as error:
        log.exception("reconciliation: %s", step.__name__)
        return f"{type(error).__name__}; the worker's log says more"
    return ""


def observe_jobs() -> int:
    """Bring all unfinished attempts and evaluations in line with Ray, retry what its infrastructure failed, keep logs.

    One listing of Ray's jobs and a constant number of queries, whatever the number of runs. Returns how many were
    looked at. A Ray that cannot be asked says nothing about its jobs.
    """
    rows, evaluations = observation.unfinished_attempts(), open_ones()
    # The others are of runs that have all ended.
    if not (rows or evaluations or observation.logs_wanted(1) or lifecycle.is_retry_wanted()):
        return 0
    try:
        with connect() as jobs:
            known = jobs.all()
            _compare(jobs, known, rows)
            see_to_evaluations(jobs, known, evaluations)
    except RayUnreachable as error:
        log.warning("reconciliation: %s", error)
        observation.observe(rows, None)
    return len(rows) + len(evaluations)


def _compare(
    jobs: RayJobs, known: Mapping[str, observation.JobStatus], rows: list[observation.Unfinished]
) -> None:
    look_at_groups(jobs, known)
    observation.observe(rows, known, _last_lines(jobs, rows, known))
    lifecycle.go_on()
    lifecycle.retry_failed({name for name, job in known.items() if job.status in observation.ALIVE})
    observation.stop_orphans(known, rows)
    read_logs(jobs, known)


def _last_lines(
    jobs: RayJobs, rows: list[observation.Unfinished], known: Mapping[str, observation.JobStatus]
) -> dict[str, str]:
    """Submission id -> the last line of its log, of jobs that failed without a message; of MAX_LOGS at most."""
    failed = {row.submission_id: known[row.submission_id] for row in rows if row.submission_id in known}
    silent = [(name, job) for name, job in failed.items() if job.status == "FAILED" and not job.message]
    return {name: observation.last_line(jobs.log_tail(name, job.node_id)) for name, job in silent[:MAX_LOGS]}


def read_logs(jobs: RayJobs, known: Mapping[str, observation.JobStatus]) -> int:
    """Keep the ends of the logs that were not read for longest, MAX_LOGS at most; how many were read."""
    wanted = observation.logs_wanted(MAX_LOGS)
    tails = {name: jobs.log_tail(name, known[name].node_id) if name in known else "" for name in wanted}
    if tails:
        observation.keep_logs(tails)
    return len(tails)


def refit_wanted() -> int:
    """Refit the runs whose wish is still open; returns how many were looked at."""
    return _serve("refit_wanted_at", refit_or_wait)


def judge_wanted() -> int:
    """Judge the runs whose newest records wait for it; returns how many were looked at."""
    return _serve("alarms_wanted_at", judge_or_wait)


def _serve(wish: str, step: Callable[[str], object]) -> int:
    """Runs that wait for the longest, MOST_SERVED at most; how many."""
    wanted = Run.objects.exclude(**{wish: None}).order_by(wish)
    run_ids = list(wanted.values_list("pk", flat=True)[:MOST_SERVED])
    for run_id in run_ids:
        step(run_id)
    return len(run_ids)


# In the order of what matters to a run: it is followed, started where another has ended, then judged; then people are
# told.
STEPS: tuple[Callable[[], int], ...] = (
    observe_jobs,
    send_dispatches,
    observation.lose_silent_trackers,
    end_silent_trackio,
    keep_logs,
    refit_wanted,
    judge_wanted,
    act_on_overlooked,
    score_overdue,
    judge_overdue,
    fire_wanted,
    deliver_wanted,
    wish_turns,
    wish_example,
    purge_retired,
    watch_disk_now,
    look_at_cluster,
    forget_old_workers,
)
