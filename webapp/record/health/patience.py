"""Migrating while everything goes on: no statement waits long for a lock, since everybody else would wait behind it.

PostgreSQL lets nobody past whoever waits for an exclusive lock. So a change of a table gives up after LOCK_SECONDS, the
others go on, and it is tried again. An index that is made CONCURRENTLY holds nobody up and waits as long as it must.
Where a migrate is killed meanwhile, its index stays under its name, whole or half made, and the next migrate meets it.

Whether the database's tables are those that this code works with.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from psycopg.errors import DeadlockDetected, LockNotAvailable

LOCK_SECONDS = 2.0
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0  # seconds between tries
GIVE_UP_SECONDS = 90.0  # of waiting for the locks of one migration
LOOK_SECONDS = 1.0  # between looks at an index that somebody makes

# Of our own tables: others may have theirs in the same database.
_OURS = "SELECT oid FROM pg_class WHERE relname = ANY(%s) AND relnamespace = current_schema()::regnamespace"
_BEING_MADE = f"SELECT relid::regclass::text FROM pg_stat_progress_create_index WHERE relid IN ({_OURS})"  # nosec B608  # constants
_HALF_MADE = f"""
SELECT name.relname FROM pg_index AS half JOIN pg_class AS name ON name.oid = half.indexrelid
WHERE NOT half.indisvalid AND name.relkind = 'i' AND half.indrelid IN ({_OURS}) ORDER BY 1
"""  # nosec B608  # constants
_MAKES = re.compile(r"^(CREATE (?:UNIQUE )?INDEX CONCURRENTLY)(?! IF NOT EXISTS)")
MOST_NAMED = 3


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
            if not isinstance(error.__cause__, LockNotAvailable | DeadlockDetected):
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


def remove_half_made_indexes(
    connection: BaseDatabaseWrapper,
    say: Callable[[str], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """What a migrate that was killed has left of an index, for the migration to make it anew; outside of a transaction.

    PostgreSQL may still be making it, since it does not see that its client has gone: that is waited for.
    """
    tables = [connection.introspection.django_table_names(include_views=False)]
    with connection.cursor() as cursor:
        cursor.execute(_BEING_MADE, tables)
        if made := cursor.fetchone():
            say(f"An index of {made[0]} is being made already: waiting for its end.")
        while made:
            sleep(LOOK_SECONDS)
            cursor.execute(_BEING_MADE, tables)
            made = cursor.fetchone()
        cursor.execute(_HALF_MADE, tables)
        for (name,) in cursor.fetchall():
            say(f"The index {name} was not made to its end: it is removed, and made anew where it is wanted.")
            cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {connection.ops.quote_name(name)}")


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
    """What is done CONCURRENTLY waits for transactions to end, while nobody waits for it; a whole index stays."""
    if "CONCURRENTLY" not in str(sql).upper():
        return execute(sql, params, many, context)
    sql = _MAKES.sub(r"\1 IF NOT EXISTS", str(sql), count=1)
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


def missing_migrations() -> list[str]:
    """`app.name` of what this code has and the database has not, sorted: the database is older than the code."""
    loader = MigrationLoader(connections["default"])
    return sorted(".".join(key) for key in loader.disk_migrations.keys() - loader.applied_migrations.keys())


def half_squashed(connection: BaseDatabaseWrapper) -> list[str]:
    """`app.name` that the database lacks and this code has only squashed with some that the database has, sorted.

    Django passes over such a squashed migration, and goes on with what depends on it.
    """
    applied = MigrationRecorder(connection).applied_migrations().keys()
    here = MigrationLoader(None).disk_migrations
    squashed = [set(each.replaces) for each in here.values()]
    return sorted(".".join(key) for one in squashed if one & applied for key in one - applied - here.keys())


def unknown_migrations() -> list[str]:
    """`app.name` of what was applied and is not here, sorted: a newer Headroom has been at work on this database."""
    loader = MigrationLoader(connections["default"], ignore_no_migrations=True)
    return _unknown(loader, set(loader.applied_migrations))


def unknown_of(names: Iterable[str]) -> list[str]:
    """Those of `app.name` that this code does not know, sorted; no database is asked."""
    applied = {(app, name) for app, _, name in (each.partition(".") for each in names)}
    return _unknown(MigrationLoader(None, ignore_no_migrations=True), applied)


def lacking_of(names: Iterable[str]) -> list[str]:
    """Those that this code has and `app.name`s have not, sorted; no database is asked."""
    return sorted({".".join(key) for key in MigrationLoader(None).disk_migrations} - set(names))


def _unknown(loader: MigrationLoader, applied: set[tuple[str, str]]) -> list[str]:
    gone = {key for migration in loader.disk_migrations.values() for key in migration.replaces}
    known = loader.disk_migrations.keys() | gone
    # An app that was taken out of INSTALLED_APPS leaves its rows; they say nothing of the version.
    apps = {app for app, _ in known}
    return sorted(".".join(key) for key in applied - known if key[0] in apps)


def old_words(missing: list[str]) -> str:
    return (
        f"The database is older than this code: it lacks {named(missing)}. Run `python manage.py prepare_stack`, "
        "after a backup."
    )


def half_words(lacking: list[str]) -> str:
    return (
        f"The database stopped on its way to 0.1.0: it lacks {named(lacking)}, which this version makes only together "
        "with what is there already. Migrate it with 0.1.0 first, or begin with an empty database."
    )


def new_words(unknown: list[str]) -> str:
    return (
        f"The database was written by a newer Headroom: it has {named(unknown)}, unknown here. Install that version, "
        "or restore a backup that this one made."
    )


def named(migrations: list[str]) -> str:
    """ "2 migrations (runs.0013_…, runs.0014_…)"."""
    noun = "migration" if len(migrations) == 1 else "migrations"
    named = ", ".join(migrations[:MOST_NAMED]) + (", …" if len(migrations) > MOST_NAMED else "")
    return f"{len(migrations)} {noun} ({named})"
