"""How many requests of a kind one person, token or address may make in a while.

Counted in fixed windows, in Redis where there is one, so that all processes of the web server count together; without
it each process counts for itself. A Redis that does not answer lets nobody wait: the process counts for itself then.
"""

import logging
import time
from dataclasses import dataclass

from django.core.cache import caches
from redis.exceptions import RedisError

from webapp.base.errors import ServiceError

log = logging.getLogger(__name__)
SHARED, OWN = "limits", "limits-of-this-process"


@dataclass(frozen=True)
class Limit:
    """At most `count` requests within `seconds`."""

    count: int
    seconds: int


class TooMany(ServiceError):
    """More requests than the limit; `wait` seconds until the next one."""

    status, code = 429, "too_many_requests"

    def __init__(self, wait: int) -> None:
        super().__init__(f"Too many requests of this kind; try again in {wait} s.")
        self.wait = wait


def spend(what: str, who: str, limit: Limit, *, now: float | None = None) -> None:
    """Count one request. Raises TooMany beyond the limit; what was refused is not counted as a new window."""
    now = time.time() if now is None else now
    window = int(now // limit.seconds)
    if _count(f"{what}:{who}:{limit.seconds}:{window}", limit.seconds) > limit.count:
        raise TooMany(max(1, round((window + 1) * limit.seconds - now)))


def _count(key: str, seconds: int) -> int:
    """How often this key was counted by now, this time included."""
    try:
        return _count_in(SHARED, key, seconds)
    except (RedisError, OSError) as error:
        log.warning("limits are counted by each process alone: %s", error)
        return _count_in(OWN, key, seconds)


def _count_in(name: str, key: str, seconds: int) -> int:
    cache = caches[name]
    if cache.add(key, 1, timeout=seconds + 5):
        return 1
    try:
        return cache.incr(key)
    except ValueError:  # it ended in between
        cache.set(key, 1, timeout=seconds + 5)
        return 1
