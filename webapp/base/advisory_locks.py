"""PostgreSQL's advisory locks: of several processes one does the work at a time."""

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


def lock_until_commit(number: int) -> None:
    """Have the lock of that number until the transaction ends; another that has it is waited for."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])
