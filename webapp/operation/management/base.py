"""What commands share: a refusal is one line, and arguments name people, projects and organisations.

The database that a command works on, whether the stack runs or not.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dj_database_url
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from stack import environment, outside
from stack.home_lock import AlreadyRunning, lock_home
from stack.postgres import start_postgres
from webapp.base.errors import ServiceError, first_of
from webapp.identity.accounts.models import Organisation, Project, User
from webapp.identity.accounts.services import DEFAULT_ORGANISATION, default_organisation


class OperatorCommand(BaseCommand):
    """What a service refuses is said in one line, with status 1."""

    requires_system_checks = ["headroom"]  # of our own settings alone

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except ServiceError as error:
            raise CommandError(error.message) from error


def user_named(username: str) -> User:
    """Raises NotFound."""
    return first_of(User.objects.filter(username=username), f"there is no user {username!r}")


def project_named(slug: str) -> Project:
    """Raises NotFound."""
    return first_of(Project.objects.filter(slug=slug), f"there is no project {slug!r}")


def organisation_named(slug: str) -> Organisation:
    """The default one is made when it is first named. Raises NotFound."""
    if slug == DEFAULT_ORGANISATION:
        return default_organisation()
    return first_of(Organisation.objects.filter(slug=slug), f"there is no organisation {slug!r}")


@contextmanager
def database(*, idle: bool = False) -> Iterator[str]:
    """Its URL: that of DATABASE_URL or of the running stack, else the embedded server, started for as long as it takes.

    idle: the stack must not be running. Raises CommandError.
    """
    home = Path(settings.HEADROOM_HOME)
    if given := environment.services_given().database_url:
        if problem := outside.database_problem(given):
            raise CommandError(problem)
        yield given
        return
    started = environment.services().database_url
    if not idle and started and outside.database_problem(started) is None:
        yield started
        return
    yield from _embedded(home)


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
