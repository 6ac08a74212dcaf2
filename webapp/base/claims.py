"""Work that stands in rows: a worker takes one for a while (`claimed_until`), and tries what failed again later.

PostgreSQL's advisory locks: of several processes one does the work, and the others know at once, or wait for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Q

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
