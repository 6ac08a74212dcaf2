"""Work that stands in rows: a worker takes one for a while (`claimed_until`), and tries what failed again later.

PostgreSQL's advisory locks: of several processes one does the work, and the others know at once, or wait for it.

Requests that may come twice: a key, usually the Idempotency-Key, finds what the first one made.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import IntegrityError, connection, transaction
from django.db.models import Q

from webapp.base.errors import Conflict, InvalidInput

CLAIM = timedelta(seconds=60)


def is_free(now: datetime) -> Q:
    """Rows that no worker has: a claim that ran out may be taken over."""
    return Q(claimed_until=None) | Q(claimed_until__lt=now)


def wait_after(tries: int, *, first: timedelta, longest: timedelta, factor: int = 2) -> timedelta:
    """How long to wait after this many failed tries: `first`, then `factor` times as long each, up to `longest`."""
    return min(longest, first * factor ** min(max(tries, 1) - 1, 20))


@contextmanager
def only_one(number: int) -> Iterator[bool]:
    """Whether this connection has the lock of that number, until the end; another that has it is not waited for."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [number])
        (alone,) = cursor.fetchone()
        try:
            yield alone
        finally:
            if alone:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [number])


def take_turns(what: str, key: str = "") -> None:
    """Wait until no other transaction that has asked for this is under way; part of the caller's transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s), hashtext(%s))", [what, key])


@contextmanager
def unless_there(error: Exception) -> Iterator[None]:
    """Part of a transaction, all of it or nothing. Raises `error` where what it stores must be once, and is there."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError:
        raise error from None


HEADER = "Idempotency-Key"
MAX_KEY = 200
T = TypeVar("T")


def once(find: Callable[[], T | None], make: Callable[[], T]) -> tuple[T, bool]:
    """What `find` finds, else what `make` makes in a transaction; and whether it was made. Of two requests at the same
    time the second finds what the first has committed."""
    if (known := find()) is not None:
        return known, False
    try:
        with transaction.atomic():
            return make(), True
    except IntegrityError:
        if (known := find()) is not None:
            return known, False
        raise


def checked_key(key: str | None, field: str = HEADER, most: int = MAX_KEY) -> str | None:
    """Raises InvalidInput for a key that is empty, too long or not printable."""
    if key is not None and (not 1 <= len(key) <= most or not key.isprintable()):
        raise InvalidInput(field, f"{field} must have 1 to {most} printable characters.")
    return key


def body_digest(body: Any) -> str:
    """Of what was asked: the same key with another one is another request."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def check_same(key: str, stored: str, digest: str, made: str) -> None:
    """Raises Conflict where the key was used for another request. made: what that made, in words."""
    if stored != digest:
        raise Conflict(f"{HEADER} {key!r} was used for another request, which made {made}.", field=HEADER)
