"""How tests with real transactions clean up."""

import pytest
from django.contrib.auth.models import Permission
from django.db import connection

from tests.flushing import KEPT, empty_tables
from tests.members import member
from webapp.identity.audit.services import record_each
from webapp.record.recipes.models import Revision


@pytest.mark.django_db(transaction=True)
def test_every_row_goes_but_those_that_django_makes_itself():
    user = member()
    record_each("run.archived", actor=user, project=None, kind="run", things=[("r1", "A run")])  # append-only
    permissions = Permission.objects.count()
    assert Revision.objects.exists()

    empty_tables()

    with connection.cursor() as cursor:
        for table in set(connection.introspection.django_table_names(only_existing=True)) - KEPT:
            cursor.execute(f"SELECT count(*) FROM {table}")
            assert cursor.fetchone() == (0,), table
    assert Permission.objects.count() == permissions > 0
