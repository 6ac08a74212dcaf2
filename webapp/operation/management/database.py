"""The database that a command works on, whether the stack runs or not."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dj_database_url
from django.conf import settings
from django.core.management.base import CommandError
from django.db import connections

from stack import environment, outside
from stack.home_lock import AlreadyRunning, lock_home
from stack.postgres import start_postgres


@contextmanager
def database(*, idle: bool = False) -> Iterator[str]:
    """Its URL: that of DATABASE_URL or of the running stack, else the embedded server, started for as long as it takes.

    idle: the stack must not be running. Raises CommandError.
    """
    home = Path(settings.HEADROOM_HOME)
    if given := environment.services_given().database_url:
        yield from _given(given)
        return
    started = environment.services().database_url
    if not idle and started and outside.database_problem(started) is None:
        yield started
        return
    yield from _embedded(home)


def _given(url: str) -> Iterator[str]:
    if problem := outside.database_problem(url):
        raise CommandError(problem)
    yield url


def _embedded(home: Path) -> Iterator[str]:
    environment.keep_private(home)
    try:
        lock = lock_home(home, lambda _: None)
    except AlreadyRunning as error:
        raise CommandError(f"{error}: stop it first.") from error
    try:
        server = start_postgres(home / "postgres")
        try:
            _use(server.url)
            yield server.url
        finally:
            connections.close_all()
            server.stop()
    finally:
        os.close(lock)


def _use(url: str) -> None:
    """Django read its settings before the server had an address."""
    connections.close_all()
    connections.settings["default"].update(dj_database_url.parse(url))
    connections["default"].settings_dict.update(connections.settings["default"])
