"""What follows new records of a run: a refit, its alarms, the record of forecasts, scores of predictions, policies.

Acting on what alarms and refits found; trouble with it is logged, and never undoes what was judged or fitted.

Scoring predictions: after each refit of a run, and once a minute for what a lost hint left behind.

The record of forecasts: after each refit of a run, and in small turns for runs that wait to be judged.
"""

import logging
from collections.abc import Callable
from functools import lru_cache, partial

import redis
from django.conf import settings

from webapp.record.runs.meaning import remake_points
from webapp.record.runs.models import Run
from webapp.reporting.alarms.services import judge_run
from webapp.reporting.policies.services import act_on, sweep
from webapp.science.curves.record import keeping
from webapp.science.curves.services import refit
from webapp.science.predictions import judging

log = logging.getLogger(__name__)
FORECASTS_SWEEP_MS = 5_000
SWEEP_SECONDS = 0.5  # about: one run takes up to two seconds
PREDICTIONS_SWEEP_MS = 60_000
POLICIES_SWEEP_MS = 15_000
MIN_INTERVAL_MS = 1000
ALARMS_INTERVAL_MS = 2000  # all watched values are read again each time: 10,000 steps take some 0.1 s


def claim_turn(kind: str, run_id: str, interval_ms: int) -> float | None:
    """0: do it now. A number: ask again after so many seconds. None: somebody else will."""
    store = _store(settings.CELERY_BROKER_URL)
    turn, comeback = f"headroom:{kind}:{run_id}", f"headroom:{kind}-later:{run_id}"
    if store.set(turn, 1, nx=True, px=interval_ms):
        return 0
    left_ms = max(1, store.pttl(turn))
    if store.set(comeback, 1, nx=True, px=left_ms):
        return left_ms / 1000
    return None


@lru_cache(maxsize=1)
def _store(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=5)


def safely(words: str, step: Callable[[str], object], run_id: str) -> None:
    """What follows a refit or a judgement; trouble is logged, since those are done."""
    try:
        step(run_id)
    except Exception:
        log.exception("%s run %s", words, run_id)


def judge_overdue() -> int:
    """Judge runs that have ended, for half a second every five; how many."""
    if not keeping.overdue().exists() or claim_turn("forecasts", "all", FORECASTS_SWEEP_MS) != 0:
        return 0
    return keeping.keep_overdue(SWEEP_SECONDS)


def score_overdue() -> int:
    """Score every open claim, at most once a minute; how many outcomes are new."""
    if not judging.open_predictions().exists() or claim_turn("predictions", "all", PREDICTIONS_SWEEP_MS) != 0:
        return 0
    return len(judging.score_all())


def act_on_overlooked() -> int:
    """Every 15 s: runs whose alarms nobody acted on, because a hint was lost or a policy is newer."""
    return sweep() if claim_turn("policies", "all", POLICIES_SWEEP_MS) == 0 else 0


def refit_or_wait(run_id: str) -> float | None:
    """Refit the run if that is wanted and the last refit is old enough, once its points follow what was said of them.

    Returns the seconds after which to ask again, where the caller should: None when it was refitted, when nothing
    is wanted, or when another caller comes back anyway.
    """
    if not Run.objects.filter(pk=run_id, refit_wanted_at__isnull=False).exists():
        return None
    if (wait_seconds := claim_turn("refit", run_id, MIN_INTERVAL_MS)) != 0:
        return wait_seconds
    if not remake_points(run_id):
        return MIN_INTERVAL_MS / 1000
    refit(run_id)
    safely("scoring by", judging.score_run, run_id)
    safely("the record of", keeping.keep_record, run_id)
    safely("policies of", partial(act_on, after_refit=True), run_id)
    return None


def judge_or_wait(run_id: str) -> float | None:
    """Judge the run if its newest records were not and the last time is long enough ago.

    Returns the seconds after which to ask again, where the caller should, else None.
    """
    if not Run.objects.filter(pk=run_id, alarms_wanted_at__isnull=False).exists():
        return None
    if (wait_seconds := claim_turn("alarms", run_id, ALARMS_INTERVAL_MS)) != 0:
        return wait_seconds
    judge_run(run_id)
    safely("policies of", act_on, run_id)
    return None
