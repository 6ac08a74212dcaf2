"""`python manage.py doctor`: whether everything that this installation needs is there, a line for each thing."""

import os
from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError
from django.db import Error as DatabaseError

from stack import environment, outside, variables
from webapp.record.health import patience

Finding = tuple[str, str | None, str]  # of what, what is wrong, what is there otherwise
NOT_STARTED = "not set: `python manage.py up` starts an embedded one"


class Command(BaseCommand):
    help = (
        "Say of variables, HEADROOM_HOME, database, broker and cluster whether they can be used, and how to mend "
        "what is wrong. Ends with status 1 where anything is."
    )
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        wrong = 0
        for name, problem, otherwise in findings():
            wrong += problem is not None
            self.stdout.write(f"{'WRONG' if problem else 'ok':6}{name:10}{problem or otherwise}")
        for warning in variables.unknown(os.environ):
            self.stdout.write(f"{'note':6}{'variables':10}{warning}")
        if wrong:
            raise CommandError(f"{wrong} {'thing is' if wrong == 1 else 'things are'} wrong.")


def findings() -> Iterator[Finding]:
    """The variables themselves have been checked by the settings."""
    services = environment.services()
    home = settings.HEADROOM_HOME
    yield "variables", None, "every one that is set has a value that can be used"
    yield "home", outside.home_problem(home, settings.MIN_FREE_BYTES), f"{home} takes files"
    yield from _part(
        "database", services.database_url, _database_problem, "answers, its tables are those of this code"
    )
    yield from _part("broker", services.redis_url, outside.broker_problem, "answers")
    yield from _part(
        "cluster", services.ray_address, outside.cluster_problem, "answers, of the version that is here"
    )


def _part(name: str, url: str | None, problem: Callable[[str], str | None], well: str) -> Iterator[Finding]:
    yield (name, problem(url), well) if url else (name, None, NOT_STARTED)


def _database_problem(url: str) -> str | None:
    if problem := outside.database_problem(url):
        return problem
    try:
        if unknown := patience.unknown_migrations():
            return patience.new_words(unknown)
        if missing := patience.missing_migrations():
            return patience.old_words(missing)
    except DatabaseError as error:
        return f"The tables of the database cannot be read: {error}"
    return None
