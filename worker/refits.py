"""Refits, at most one a second for each run: the first wish is served at once, later ones share the next refit."""

from functools import lru_cache

import redis
from django.conf import settings

from webapp.curves import services
from webapp.runs.models import Run

MIN_INTERVAL_MS = 1000


def refit_or_wait(run_id: str) -> float | None:
    """Refit the run if that is wanted and the last refit is old enough.

    Returns the seconds after which to ask again, where the caller should: None when it was refitted, when nothing
    is wanted, or when another caller comes back anyway.
    """
    if not Run.objects.filter(pk=run_id, refit_wanted_at__isnull=False).exists():
        return None
    wait_seconds = _claim_turn(run_id)
    if wait_seconds == 0:
        services.refit(run_id)
        return None
    return wait_seconds


def _claim_turn(run_id: str) -> float | None:
    """0: refit now. A number: ask again after it. None: somebody else will."""
    store = _store(settings.CELERY_BROKER_URL)
    turn, comeback = f"headroom:refit:{run_id}", f"headroom:refit-later:{run_id}"
    if store.set(turn, 1, nx=True, px=MIN_INTERVAL_MS):
        return 0
    left_ms = max(1, store.pttl(turn))
    if store.set(comeback, 1, nx=True, px=left_ms):
        return left_ms / 1000
    return None


@lru_cache(maxsize=1)
def _store(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=5)
