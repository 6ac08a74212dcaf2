"""Judging runs by the alarms' rules, at most once in two seconds for each run."""

from webapp.record.runs.models import Run
from webapp.reporting.alarms import services
from worker.policies import act
from worker.turns import claim_turn

MIN_INTERVAL_MS = 2000  # all watched values are read again each time: 10,000 steps take some 0.1 s


def judge_or_wait(run_id: str) -> float | None:
    """Judge the run if its newest records were not and the last time is long enough ago.

    Returns the seconds after which to ask again, where the caller should, else None.
    """
    if not Run.objects.filter(pk=run_id, alarms_wanted_at__isnull=False).exists():
        return None
    wait_seconds = claim_turn("alarms", run_id, MIN_INTERVAL_MS)
    if wait_seconds == 0:
        services.judge_run(run_id)
        act(run_id)
        return None
    return wait_seconds
