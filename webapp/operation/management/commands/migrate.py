"""`python manage.py migrate`: Django's own, on a database that is at work (`webapp.record.health.patience`)."""

import gc
from typing import Any

from django.core.management import CommandError
from django.core.management.commands import migrate
from django.db import connections

from webapp.record.health.patience import (
    LockedOut,
    half_squashed,
    half_words,
    migrate_patiently,
    remove_half_made_indexes,
)


class Command(migrate.Command):
    """Beside what Django does, it never waits long for a lock, and goes on where it was killed."""

    def handle(self, *args: Any, **options: Any) -> None:
        database = connections[options["database"]]
        if lacking := half_squashed(database):
            raise CommandError(half_words(lacking))
        gc.freeze()  # each migration makes every model anew: what is imported is not looked through each time

        def apply() -> None:
            if not (options["plan"] or options["check_unapplied"]):
                remove_half_made_indexes(database, self.stderr.write)
            super(Command, self).handle(*args, **options)

        try:
            migrate_patiently(database, apply, self.stderr.write)
        except LockedOut as error:
            raise CommandError(str(error)) from error
