"""Scoring predictions: after each refit of a run, and once a minute for what a lost hint left behind."""

import logging

from webapp.science.predictions import scoring
from worker.turns import claim_turn

log = logging.getLogger(__name__)
SWEEP_MS = 60_000


def score_after_refit(run_id: str) -> int:
    """Score the claims that this run decides; how many outcomes are new. Trouble is logged: the refit is done."""
    try:
        return len(scoring.score_run(run_id))
    except Exception:
        log.exception("scoring by run %s", run_id)
        return 0


def score_overdue() -> int:
    """Score every open claim, at most once a minute; how many outcomes are new."""
    if not scoring.open_predictions().exists():
        return 0
    if claim_turn("predictions", "all", SWEEP_MS) != 0:
        return 0
    return len(scoring.score_all())
