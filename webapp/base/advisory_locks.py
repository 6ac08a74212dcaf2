"""PostgreSQL's advisory locks: of several processes one does the work, and the others know at once, or wait for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


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
