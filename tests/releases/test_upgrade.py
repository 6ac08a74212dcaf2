"""The database of an installed 0.1.0, with rows in each of its tables, is migrated: tables as new ones are, rows kept.

`v0_1_0/database.sql.gz` is what pg_dump wrote of it, without comments and settings of the session; it never changes.
"""

import gzip
import os
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from allauth.mfa.models import Authenticator
from django.core.management import CommandError, call_command
from django.db import connection, connections

from tests.databases import create, dropped
from webapp.identity.accounts.models import ApiToken, Membership
from webapp.record.health import patience
from webapp.record.runs.models import Run
from webapp.reporting.shares.models import Share
from webapp.science.curves.models import ReferenceFit
from webapp.science.decisions.models import Entry

pytestmark = pytest.mark.django_db
DATABASE = Path(__file__).parent / "v0_1_0" / "database.sql.gz"
CATALOG = {
    "column": "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default, "
    "identity_generation FROM information_schema.columns WHERE table_schema = 'public'",
    "constraint": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated "
    "FROM pg_constraint WHERE connamespace = 'public'::regnamespace",
    "index": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "trigger": "SELECT tgname, pg_get_triggerdef(oid), tgenabled::text FROM pg_trigger WHERE NOT tgisinternal",
    "function": "SELECT oid::regprocedure::text, pg_get_functiondef(oid) FROM pg_proc "
    "WHERE pronamespace = 'public'::regnamespace",
    "view": "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
    "relation": "SELECT relname, relkind::text, reloptions FROM pg_class WHERE relnamespace = 'public'::regnamespace",
}
GROWN = {"django_content_type", "auth_permission", "django_migrations"}  # each migrate adds to them


def catalog():
    """What the database of now says of itself: kind, then the columns of CATALOG; the order of columns is left out."""
    found = set()
    with connection.cursor() as cursor:
        for kind, query in CATALOG.items():
            cursor.execute(query)
            rows = {(kind, *map(str, row)) for row in cursor.fetchall()}
            assert rows, kind
            found |= rows
    return found


def rows_of(columns):
    """table -> its rows as sorted text, of these columns each."""
    found = {}
    with connection.cursor() as cursor:
        for table, names in columns.items():
            cursor.execute(f'SELECT ({", ".join(names)})::text FROM "{table}" ORDER BY 1')
            found[table] = [row for (row,) in cursor.fetchall()]
    return found


def columns():
    """table -> its columns, quoted."""
    found: dict[str, list[str]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, quote_ident(column_name) FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY 1, 2"
        )
        for table, column in cursor.fetchall():
            found.setdefault(table, []).append(column)
    return found


@pytest.fixture(scope="module")
def new(django_db_setup, django_db_blocker):
    """The catalog of the tests' database, in which the migrations met nothing."""
    with django_db_blocker.unblock():
        return catalog()


@pytest.fixture(scope="module")
def restored(new, django_db_blocker):
    """That database in place of the tests' own."""
    name = f"of_0_1_0_{os.getpid()}"
    own, other = connections["default"], connections["default"].copy()
    create(name)
    with dropped(name) as [url], django_db_blocker.unblock():
        with psycopg.connect(url, autocommit=True) as restoring:
            restoring.execute(gzip.decompress(DATABASE.read_bytes()).decode())
        other.settings_dict["NAME"] = name
        connections["default"] = other
        try:
            yield
        finally:
            other.close()
            connections["default"] = own


@pytest.fixture(scope="module")
def rows(restored):
    """What it held, once it was migrated."""
    before = columns()
    held = rows_of(before)
    call_command("migrate", verbosity=0)
    return before, held


@pytest.mark.parametrize(
    "lacking", ["runs.0012_dispatch_origin", pytest.param("accounts.0002_initial", marks=pytest.mark.deep)]
)
def test_a_database_that_stopped_on_its_way_to_0_1_0_is_refused(restored, lacking):
    app, _, name = lacking.partition(".")
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE app = %s AND name = %s RETURNING applied", [app, name]
        )
        (applied,) = cursor.fetchone()
        with pytest.raises(
            CommandError, match=rf"it lacks 1 migration \({lacking}\).*Migrate it with 0\.1\.0"
        ):
            call_command("migrate", verbosity=0, stdout=StringIO())
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, %s)", [app, name, applied]
        )
    assert patience.half_squashed(connection) == []


def test_its_tables_are_those_of_a_new_one(rows, new):
    assert catalog() ^ new == set()
    assert patience.missing_migrations() == patience.unknown_migrations() == []


def test_every_row_is_kept(rows):
    before, held = rows
    empty = {table for table in held if not held[table]}
    assert {table for table in empty if not table.startswith("axes_")} == set()
    after = rows_of(before)
    for table in before:
        if table in GROWN:
            assert set(held[table]) <= set(after[table]), table
        else:
            assert after[table] == held[table], table


def test_the_models_read_them(rows):
    run = Run.objects.select_related("project__organisation", "revision__recipe", "summary").get(pk="run1")
    assert (run.name, run.state, run.notes, run.deleted_at) == ("A run 1", "failed", "", None)
    assert run.series.get().points.get().value == 0.375 and run.summary.reached is None
    assert list(ApiToken.objects.exclude(run=None).values_list("run", "attempt")) == [
        ("run1", 1),
        ("run2", 1),
    ]
    assert Membership.objects.count() == Share.objects.count() == 3 and ReferenceFit.objects.count() == 10


def test_second_factors_and_decisions_are_carried_over(rows):
    assert Authenticator.objects.filter(type="totp").count() == 3
    assert set(Entry.objects.values_list("about", "object_id", "name")) == {
        ("run", f"run{number}", f"A run {number}") for number in range(3)
    }
    assert Entry.objects.filter(kind="note").count() == 3 and Entry.objects.count() == 6
