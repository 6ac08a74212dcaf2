"""Migrations that step back from locks: the loop without waiting, and real ones beside a writer and a long query."""

import os
import threading
from io import StringIO

import psycopg
import pytest
from django.core.management import call_command, get_commands
from django.db import DataError, OperationalError, connection
from psycopg.errors import DeadlockDetected, LockNotAvailable

from benchmarks.bench_migrations import BEFORE, Writer, bring_to, command, fill, long_query
from tests.databases import create, database_url, dropped
from tests.waiting import wait_until
from webapp.record.health import patience
from webapp.record.health.patience import (
    GIVE_UP_SECONDS,
    LockedOut,
    migrate_patiently,
    remove_half_made_indexes,
    short_locks,
)


class Clock:
    """Nobody sleeps really."""

    def __init__(self):
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)


def locked(times, why=LockNotAvailable):
    """A migration that gets no lock this many times."""
    left = [times]

    def migrate():
        if left[0]:
            left[0] -= 1
            raise OperationalError("canceling statement due to lock timeout") from why()

    return migrate


def lock_timeout():
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        return cursor.fetchone()[0]


@pytest.mark.parametrize("why", [LockNotAvailable, DeadlockDetected])
def test_a_lock_that_is_held_is_stepped_back_from(db, why):
    clock, said = Clock(), []
    migrate_patiently(connection, locked(3, why), said.append, sleep=clock.sleep)
    assert clock.slept == [0.5, 1.0, 2.0] and len(said) == 3
    assert "so that nobody waits behind it" in said[0]


def test_it_gives_up_and_says_what_to_do(db):
    clock = Clock()
    with pytest.raises(LockedOut, match=r"got no lock in 90 s: a long query .* Nothing of it is applied"):
        migrate_patiently(connection, locked(1000), lambda _: None, sleep=clock.sleep)
    assert GIVE_UP_SECONDS / 2 < sum(clock.slept) < GIVE_UP_SECONDS


def test_another_error_is_not_tried_again(db):
    def broken():
        raise OperationalError("no disk")

    with pytest.raises(OperationalError, match="no disk"):
        migrate_patiently(connection, broken, lambda _: None)


def test_statements_wait_shortly_but_concurrent_ones_as_long_as_they_must(db):
    asked = []

    def execute(sql, *rest):
        asked.append((sql, lock_timeout_of(rest[-1])))

    def lock_timeout_of(context):
        return context["connection"].connection.execute("SHOW lock_timeout").fetchone()[0]

    before = lock_timeout()
    with short_locks(connection):
        assert lock_timeout() == "2s"
        for sql in ("ALTER TABLE a", "CREATE INDEX CONCURRENTLY a ON b (c)"):
            patience._as_long_as_it_takes(execute, sql, None, False, {"connection": connection})
        assert lock_timeout() == "2s"
    assert (
        asked == [("ALTER TABLE a", "2s"), ("CREATE INDEX CONCURRENTLY IF NOT EXISTS a ON b (c)", "0")]
        and lock_timeout() == before
    )


TABLE, INDEX = "django_content_type", "half_made_index"  # a table that always has rows


@pytest.fixture
def half_made(transactional_db):
    """What is left of an index that could not be made to its end, on a table of ours and on somebody else's."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE of_others AS SELECT 1 AS id")
        for table, index in ((TABLE, INDEX), ("of_others", "half_of_others")):
            with pytest.raises(DataError):
                cursor.execute(f"CREATE INDEX CONCURRENTLY {index} ON {table} ((1 / (id - id)))")
        yield
        cursor.execute("DROP TABLE of_others")
        for index in (INDEX, "other"):
            cursor.execute(f"DROP INDEX IF EXISTS {index}")


def indexes_of(table):
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = %s", [table])
        return sorted(name for (name,) in cursor.fetchall())


def test_what_a_killed_migrate_left_of_an_index_is_removed_and_said(half_made):
    assert INDEX in indexes_of(TABLE)

    call_command("migrate", plan=True, stdout=StringIO())
    assert INDEX in indexes_of(TABLE), "a look at the plan changes nothing"

    said = StringIO()
    call_command("migrate", verbosity=0, stderr=said)
    assert f"The index {INDEX} was not made to its end: it is removed" in said.getvalue()
    assert INDEX not in indexes_of(TABLE)
    assert indexes_of("of_others") == ["half_of_others"]


def test_whole_indexes_stay(transactional_db):
    before = indexes_of("runs_point")
    said = []

    remove_half_made_indexes(connection, said.append)

    assert said == [] and indexes_of("runs_point") == before != []


def test_our_migrate_is_the_one_that_is_called():
    assert get_commands()["migrate"] == "webapp.operation"


@pytest.fixture
def url():
    name = f"migrating_{os.getpid()}"
    create(name)
    with dropped(name) as [address]:
        yield address


def test_an_index_that_a_killed_migrate_left_in_the_making_is_waited_for(half_made):
    """Its maker waits for a transaction that the test holds open, as it would for any other."""
    said, makers = [], []
    with psycopg.connect(url_of_this_database()) as older:
        older.execute(f"UPDATE {TABLE} SET model = model")
        making = threading.Thread(target=make_index, args=(makers,))
        making.start()
        wait_until(lambda: "other" in indexes_of(TABLE), what="the index in the making")

        def sleep(seconds):
            older.rollback()
            making.join(10)

        remove_half_made_indexes(connection, said.append, sleep=sleep)

    assert said[0] == f"An index of {TABLE} is being made already: waiting for its end."
    assert "other" in indexes_of(TABLE) and INDEX not in indexes_of(TABLE) and makers == ["whole"]


def url_of_this_database():
    return database_url(connection.settings_dict["NAME"])


def make_index(makers):
    with psycopg.connect(url_of_this_database(), autocommit=True) as own:
        own.execute(f"CREATE INDEX CONCURRENTLY other ON {TABLE} (model)")
    makers.append("whole")


@pytest.mark.deep
def test_points_are_written_on_while_the_newest_migrations_wait_for_a_long_query(url):
    bring_to(url, BEFORE)
    fill(url, 20_000)
    with Writer(url) as writer:
        with long_query(url):
            process = command(url, "migrate")
            said = next(line for line in process.stdout if "waits for a lock" in line or "Error" in line)
            assert "runs.0013_effective_points_notes_and_shares waits for a lock: it steps back" in said
            assert writer.wait_for_more(), "the writer waits behind the migration"
        rest = process.communicate()[0]
        assert process.returncode == 0, rest
        assert writer.wait_for_more()
    assert writer.error is None
    with psycopg.connect(url) as connected:
        (stored,) = connected.execute("SELECT count(*) FROM runs_point").fetchone()
        (newest,) = connected.execute("SELECT max(name) FROM django_migrations WHERE app = 'runs'").fetchone()
    assert stored == 20_000 + writer.points and newest >= "0013"
