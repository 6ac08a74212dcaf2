"""Every migration since the first release is safe on a database at work; those before it met no data."""

from pathlib import Path

import pytest
from django.apps import apps
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from stack.environment import ROOT
from tests.webapp.record.health.migration_lint import BIG, findings

# app.name of every migration of version 0.1.0, the first release: before it no installation had data to lock. Those of
# which an app had several are squashed.
BEFORE_FIRST_RELEASE = set((Path(__file__).parent / "migrations_of_0_1_0.txt").read_text().split())
ALLOWED: dict[str, str] = {  # app.name -> why what is found in it holds nobody up
    "signin.0002_second_factors_of_allauth": "two rows for each person with a second factor; run again it adds none",
}


def ours(loader: MigrationLoader) -> list[tuple[str, str]]:
    here = {
        label
        for label, config in apps.app_configs.items()
        if Path(config.path).is_relative_to(ROOT / "webapp")
    }
    return sorted(key for key in loader.disk_migrations if key[0] in here)


def sql_of(loader: MigrationLoader, key: tuple[str, str]) -> list[str]:
    return loader.collect_sql([(loader.graph.nodes[key], False)])


@pytest.fixture
def loader(db):
    outside = connection.copy()  # of the test's transaction, in which nothing is made CONCURRENTLY
    yield MigrationLoader(outside, replace_migrations=False)
    outside.close()


def test_every_new_migration_holds_nobody_up(loader):
    names = {".".join(key): key for key in ours(loader)}
    replaces = {
        name: {".".join(each) for each in loader.disk_migrations[key].replaces} for name, key in names.items()
    }
    known = names.keys() | set().union(*replaces.values())
    assert known >= BEFORE_FIRST_RELEASE, "a migration that was released never goes, but into a squashed one"
    of_first = {name for name in names if (replaces[name] or {name}) <= BEFORE_FIRST_RELEASE}
    assert ALLOWED.keys() <= names.keys() - of_first
    new = names.keys() - of_first - ALLOWED.keys()
    found = {name: told for name in sorted(new) if (told := findings(sql_of(loader, names[name])))}
    assert not found


def test_big_tables_are_there():
    assert {model._meta.db_table for model in apps.get_models()} >= set(BIG)


UNSAFE = {
    'CREATE INDEX "a" ON "runs_point" ("step")': "make it CONCURRENTLY",
    'CREATE UNIQUE INDEX CONCURRENTLY "a" ON "runs_point" ("step")': "what an interrupted attempt left",
    'ALTER TABLE "runs_run" ADD COLUMN "u" uuid DEFAULT gen_random_uuid() NOT NULL': "for each row",
    'ALTER TABLE "runs_run" ADD COLUMN "n" bigserial': "for each row",
    'ALTER TABLE "runs_run" ADD COLUMN "n" integer NOT NULL': "release before cannot add rows",
    'ALTER TABLE "runs_run" ALTER COLUMN "name" TYPE text USING "name"::text': "another type",
    'ALTER TABLE "runs_record" ALTER COLUMN "time" SET NOT NULL': "reads the whole table",
    'ALTER TABLE "runs_point" ADD CONSTRAINT "c" CHECK ("step" >= 0)': "NOT VALID",
    'ALTER TABLE "runs_series" ADD CONSTRAINT "c" FOREIGN KEY ("run_id") REFERENCES "runs_run" ("id")': "NOT VALID",
    'ALTER TABLE "runs_series" ADD CONSTRAINT "c" UNIQUE ("run_id")': "its index CONCURRENTLY",
    'ALTER TABLE "runs_run" SET UNLOGGED': "rewrites",
    'UPDATE "runs_run" SET "name" = \'\'': "in pieces",
    'DELETE FROM "runs_record"': "in pieces",
    'ALTER TABLE "shares_share" DROP COLUMN "title" CASCADE': "still uses the column",
    'ALTER TABLE "shares_share" RENAME COLUMN "title" TO "name"': "knows the old name",
    'DROP TABLE "shares_share" CASCADE': "still uses the table",
    'LOCK TABLE "runs_run"': "locks a whole table",
    "-- THIS OPERATION CANNOT BE WRITTEN AS SQL": "say in ALLOWED",
}
SAFE = (
    ['CREATE TABLE "t" ("id" bigint)', 'CREATE INDEX "a" ON "t" ("id")'],
    ["DROP INDEX CONCURRENTLY IF EXISTS a", "CREATE INDEX CONCURRENTLY a ON runs_point (step)"],
    ['ALTER TABLE "runs_run" ADD COLUMN "n" integer NULL'],
    ['ALTER TABLE "runs_run" ADD COLUMN "n" integer DEFAULT 0 NOT NULL'],
    ['ALTER TABLE "runs_run" ADD COLUMN "t" timestamptz DEFAULT now() NOT NULL'],
    ['ALTER TABLE "runs_point" ADD CONSTRAINT "c" CHECK ("step" >= 0) NOT VALID'],
    [
        'ALTER TABLE "runs_run" VALIDATE CONSTRAINT "c"',
        'ALTER TABLE "runs_run" ALTER COLUMN "n" SET NOT NULL',
    ],
    ['ALTER TABLE "shares_share" ALTER COLUMN "title" TYPE varchar(200)'],
)


@pytest.mark.parametrize("statement", UNSAFE)
def test_what_would_hold_people_up_is_found(statement):
    assert any(UNSAFE[statement] in each for each in findings([statement])), findings([statement])


def test_a_default_that_django_forgets_is_found():
    told = findings([
        'ALTER TABLE "accounts_project" ADD COLUMN "n" integer DEFAULT 0 NOT NULL;',
        'ALTER TABLE "accounts_project" ALTER COLUMN "n" DROP DEFAULT;',
    ])  # fmt: skip
    assert len(told) == 1 and "cannot add rows without a db_default" in told[0]


@pytest.mark.parametrize("statements", SAFE)
def test_what_holds_nobody_up_is_let_through(statements):
    assert findings(statements) == []
