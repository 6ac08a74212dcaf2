"""The published curves, which come by a migration, are there for every test, whatever ran before it in this process."""

import pytest
from django.core.cache import caches
from django.db import connection

from tests.flushing import publish_curves, really_commits


@pytest.fixture(autouse=True)
def _published_curves(request: pytest.FixtureRequest) -> None:
    """A test with real transactions begins with empty tables."""
    if really_commits(request.node):
        is_shared = connection.connection is not None and connection.in_atomic_block
        assert not is_shared, "tests of this module share rows (tests/shared_rows.py)"
        request.getfixturevalue("transactional_db")
        publish_curves()


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    """Requests of one test do not use up the limits of the next."""
    caches["default"].clear()
    caches["limits"].clear()
    caches["limits-of-this-process"].clear()
