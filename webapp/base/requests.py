"""Who asks, a person with a browser or a script, and what of it can be stored.

How large the body of a request may be, and how it is read where it may be larger than most.

How many requests of a kind one person, token or address may make in a while.

Counted in fixed windows, in Redis where there is one, so that all processes of the web server count together; without
it each process counts for itself. A Redis that does not answer lets nobody wait: the process counts for itself then.
"""

import logging
import time
from dataclasses import dataclass

from django.core.cache import caches
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, QueryDict
from redis.exceptions import RedisError

from webapp.base.errors import InvalidInput, ServiceError

MAX_BATCH_BYTES = 16 * 1024 * 1024  # of records, and of what clients of other trackers log
MAX_ITEMS = 500_000  # values, lists and objects of a JSON body: each takes up to 300 bytes once it is read


def asked_by_script(request: HttpRequest) -> bool:
    """Whether htmx asks, or a script that wants JSON and no page."""
    accepted = request.headers.get("Accept", "")
    return bool(getattr(request, "htmx", False)) or (
        "application/json" in accepted and "text/html" not in accepted
    )


def without_nul(query: QueryDict) -> QueryDict:
    """The same without NUL characters, which PostgreSQL cannot store in a text, nor be asked for."""
    pairs = [(name, value) for name, values in query.lists() for value in values]
    if not any("\0" in text for pair in pairs for text in pair):
        return query
    found = QueryDict(mutable=True)
    for name, value in pairs:
        found.appendlist(name.replace("\0", ""), value.replace("\0", ""))
    return found


def batch_of(request: HttpRequest, most: int = MAX_BATCH_BYTES) -> bytes:
    """The body of a request that may have more than `DATA_UPLOAD_MAX_MEMORY_SIZE`. Raises RequestDataTooBig above
    `most` bytes, none of which is read where the request says how many there are."""
    if int(request.META.get("CONTENT_LENGTH") or 0) > most:
        raise RequestDataTooBig
    body = request.read(most + 1)
    if len(body) > most:
        raise RequestDataTooBig
    return body


def check_items(body: bytes) -> None:
    """Before JSON is read, since a short text can hold millions of lists. Raises InvalidInput (413)."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_ITEMS:
        raise InvalidInput(None, f"The body holds more than {MAX_ITEMS:,} values.", status=413)


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
