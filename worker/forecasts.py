"""The record of forecasts: after each refit of a run, and in small turns for runs that wait to be judged."""

import logging

from webapp.science.curves.record import keeping
from worker.turns import claim_turn

log = logging.getLogger(__name__)
SWEEP_MS = 5_000
SWEEP_SECONDS = 0.5  # about: one run takes up to two seconds


def keep_after_refit(run_id: str) -> bool:
    """Bring the run's record up to date; whether it changed. Trouble is logged: the refit is done."""
    try:
        return keeping.keep_record(run_id)
    except Exception:
        log.exception("the record of run %s", run_id)
        return False


def judge_overdue() -> int:
    """Judge runs that have ended, for half a second every five; how many."""
    if not keeping.overdue().exists():
        return 0
    if claim_turn("forecasts", "all", SWEEP_MS) != 0:
        return 0
    return keeping.keep_overdue(SWEEP_SECONDS)
