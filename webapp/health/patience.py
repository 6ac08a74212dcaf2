"""Migrating while everything goes on: no statement waits long for a lock, since everybody else would wait behind it.

PostgreSQL lets nobody past whoever waits for an exclusive lock. So a change of a table gives up after LOCK_SECONDS, the
others go on, and it is tried again. An index that is made CONCURRENTLY holds nobody up and waits as long as it must.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import DatabaseError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from psycopg.errors import LockNotAvailable

LOCK_SECONDS = 2.0
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0  # seconds between tries
GIVE_UP_SECONDS = 90.0  # of waiting for the locks of one migration


class LockedOut(RuntimeError):
    """A migration did not get its lock; what came before it is applied, nothing of it is."""


def migrate_patiently(
    connection: BaseDatabaseWrapper,
    migrate: Callable[[], None],
    say: Callable[[str], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call `migrate` until it went through. Raises LockedOut where one migration waited GIVE_UP_SECONDS in all."""
    at, waited, wait = "", 0.0, FIRST_WAIT
    while True:
        try:
            with short_locks(connection):
                return migrate()
        except OperationalError as error:
            if not isinstance(error.__cause__, LockNotAvailable):
                raise
        newest = _next_migration(connection)
        if newest != at:
            at, waited, wait = newest, 0.0, FIRST_WAIT
        waited += LOCK_SECONDS
        if waited > GIVE_UP_SECONDS:
            raise LockedOut(
                f"The migration {at} got no lock in {GIVE_UP_SECONDS:.0f} s: a long query or transaction holds one of "
                "its tables (pg_stat_activity names it). Nothing of it is applied; migrate again once that has ended."
            )
        say(f"{at} waits for a lock: it steps back, so that nobody waits behind it, and is tried again.")
        sleep(wait)
        waited += wait
        wait = min(LONGEST_WAIT, 2 * wait)


@contextmanager
def short_locks(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Inside, a statement fails that waits longer than LOCK_SECONDS for a lock."""
    connection.ensure_connection()
    _set_lock_timeout(connection, LOCK_SECONDS)
    try:
        with connection.execute_wrapper(_as_long_as_it_takes):
            yield
    finally:
        with suppress(DatabaseError):  # of a transaction that failed: its end takes it back
            _set_lock_timeout(connection, 0.0)


def _as_long_as_it_takes(execute: Any, sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """What is done CONCURRENTLY waits for transactions to end, while nobody waits for it."""
    if "CONCURRENTLY" not in str(sql).upper():
        return execute(sql, params, many, context)
    raw = context["connection"].connection
    raw.execute("SET lock_timeout = 0")
    try:
        return execute(sql, params, many, context)
    finally:
        raw.execute(f"SET lock_timeout = {round(LOCK_SECONDS * 1000)}")


def _set_lock_timeout(connection: BaseDatabaseWrapper, seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = {round(seconds * 1000)}")


def _next_migration(connection: BaseDatabaseWrapper) -> str:
    """`app.name` of the first that is to be applied; empty where none is."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return f"{plan[0][0].app_label}.{plan[0][0].name}" if plan else ""
