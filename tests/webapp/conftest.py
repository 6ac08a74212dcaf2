"""The published curves, which come by a migration, are there for every test, whatever ran before it in this process."""

from importlib import import_module

import pytest
from django.apps import apps
from django.core.cache import caches
from django.db import connection


@pytest.fixture(autouse=True)
def _published_curves(request: pytest.FixtureRequest) -> None:
    """A test with real transactions leaves its tables empty."""
    marker = request.node.get_closest_marker("django_db")
    asked = set(request.fixturenames)
    if not marker and not asked & {"db", "transactional_db"}:
        return
    is_real = "transactional_db" in asked or (marker is not None and marker.kwargs.get("transaction"))
    assert not (is_real and connection.in_atomic_block), (
        "tests of this module share rows (tests/shared_rows.py)"
    )
    request.getfixturevalue("transactional_db" if is_real else "db")
    from webapp.curves.models import ReferenceFit

    if not ReferenceFit.objects.exists():
        import_module("webapp.curves.migrations.0002_published_curves").add(apps, None)


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    """Requests of one test do not use up the limits of the next."""
    caches["default"].clear()
    caches["limits"].clear()
    caches["limits-of-this-process"].clear()
