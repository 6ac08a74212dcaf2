"""Refits, at most one a second for each run: the first wish is served at once, later ones share the next refit."""

from webapp.record.runs.models import Run
from webapp.science.curves import services
from worker.forecasts import keep_after_refit
from worker.policies import act
from worker.predictions import score_after_refit
from worker.turns import claim_turn

MIN_INTERVAL_MS = 1000


def refit_or_wait(run_id: str) -> float | None:
    """Refit the run if that is wanted and the last refit is old enough.

    Returns the seconds after which to ask again, where the caller should: None when it was refitted, when nothing
    is wanted, or when another caller comes back anyway.
    """
    if not Run.objects.filter(pk=run_id, refit_wanted_at__isnull=False).exists():
        return None
    wait_seconds = claim_turn("refit", run_id, MIN_INTERVAL_MS)
    if wait_seconds == 0:
        services.refit(run_id)
        score_after_refit(run_id)
        keep_after_refit(run_id)
        act(run_id, after_refit=True)
        return None
    return wait_seconds
