"""The tests run on a real PostgreSQL with all migrations applied."""

import pytest
from django.core.management import call_command
from django.db import connection


@pytest.mark.django_db
def test_database_is_postgresql():
    with connection.cursor() as cursor:
        cursor.execute("select version()")

        assert cursor.fetchone()[0].startswith("PostgreSQL")


@pytest.mark.django_db
def test_no_migration_is_missing():
    call_command("makemigrations", check=True, dry_run=True)
