"""A database that is older or newer than the code, as each entrance says it."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db.migrations.recorder import MigrationRecorder

from stack import environment
from webapp.interfaces.api import health
from webapp.record.health import patience

pytestmark = pytest.mark.django_db


@pytest.fixture
def newer(db):
    """Some release after this one was here."""
    MigrationRecorder.Migration.objects.create(app="runs", name="0999_of_the_future")


@pytest.fixture
def older(db):
    """The newest migration of an app was never applied."""
    MigrationRecorder.Migration.objects.filter(app="health").latest("id").delete()


def doctor():
    said = StringIO()
    try:
        call_command("doctor", stdout=said)
    except CommandError as error:
        return said.getvalue(), str(error)
    return said.getvalue(), None


def test_the_tables_of_this_code_are_well():
    assert patience.missing_migrations() == patience.unknown_migrations() == []


def test_rows_of_an_app_that_is_gone_say_nothing():
    MigrationRecorder.Migration.objects.create(app="admin", name="0001_initial")
    assert patience.unknown_migrations() == []


def test_nothing_is_changed_in_a_newer_database(newer):
    with pytest.raises(
        CommandError, match=r"a newer Headroom: it has 1 migration \(runs\.0999_of_the_future\)"
    ):
        call_command("prepare_stack", stdout=StringIO())


def test_a_server_on_an_older_database_is_not_ready(older, monkeypatch):
    monkeypatch.setattr(health, "_is_complete", False)
    assert health._schema() == "lacks 1 migration of this code"


def test_doctor_says_what_is_wrong_and_ends_with_an_error(older):
    said, error = doctor()
    assert error == "1 thing is wrong."
    (line,) = [line for line in said.splitlines() if line.startswith("WRONG")]
    assert "database" in line and "Run `python manage.py prepare_stack`" in line


def test_doctor_names_the_newer_version(newer):
    said, error = doctor()
    assert error == "1 thing is wrong." and "runs.0999_of_the_future" in said


def test_doctor_on_what_can_be_used(monkeypatch):
    monkeypatch.setenv("HEADROOM_RETRYS", "3")
    said, error = doctor()

    assert error is None
    assert [line.split()[:2] for line in said.splitlines()] == [
        ["ok", "variables"],
        ["ok", "home"],
        ["ok", "database"],
        ["ok", "broker"],
        ["ok", "cluster"],
        ["note", "variables"],
    ]
    assert "did you mean HEADROOM_RETRIES?" in said


def test_doctor_asks_the_parts_that_are_named(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    assert environment.services().redis_url
    said, error = doctor()
    assert error == "1 thing is wrong." and "Check REDIS_URL" in said
