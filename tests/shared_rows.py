"""Rows that the tests of a module share: stored once, in a transaction around all of these tests."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction
from pytest_django import DjangoDbBlocker


@contextmanager
def kept(blocker: DjangoDbBlocker) -> Iterator[None]:
    """What is stored inside is there for every test until the end, and then undone; none of them may really commit."""
    with blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)
