"""Cleaning up after a test with real transactions: to delete its rows is faster than to truncate 80 tables."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connections, transaction
from django.test import TransactionTestCase

# Django's own way empties these too, and then makes the same rows again.
KEPT = {"django_content_type", "auth_permission"}
by_truncating = TransactionTestCase._fixture_teardown
REAL = {"transactional_db", "live_server", "django_db_reset_sequences", "django_db_serialized_rollback"}
are_empty = False


def empty_tables(alias: str = "default") -> None:
    """Deletes every row whatever triggers and foreign keys say, once nobody else writes (as TRUNCATE waits, too)."""
    connection = connections[alias]
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    tables = [connection.ops.quote_name(name) for name in names if name not in KEPT]
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(tables)} IN EXCLUSIVE MODE")
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("; ".join(f"DELETE FROM {table}" for table in tables))


def empty_databases(case: TransactionTestCase) -> None:
    """What a test case cleans up with; triggers can be passed over by a superuser alone."""
    global are_empty
    are_empty = True
    for alias in case._databases_names(include_mirrors=False):
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
            if not cursor.fetchone()[0]:
                return by_truncating(case)
        empty_tables(alias)


def really_commits(item: pytest.Item) -> bool:
    """Whether a test has real transactions."""
    marker = item.get_closest_marker("django_db")
    is_marked = marker is not None and (marker.kwargs.get("transaction") or any(marker.args))
    return bool(is_marked) or not REAL.isdisjoint(getattr(item, "fixturenames", ()))


def publish_curves() -> None:
    """The published curves, as their migration stores them."""
    from webapp.science.curves.models import ReferenceFit

    if not ReferenceFit.objects.exists():
        import_module("webapp.science.curves.migrations.0001_squashed_0005_fit_superseded").add(apps, None)


def fill() -> None:
    """What the database of the tests begins with, as an installation has it: the default project with the shipped
    recipes, and the published curves.
    """
    from webapp.identity.accounts.services import default_project

    default_project()
    publish_curves()


TransactionTestCase._fixture_teardown = empty_databases
