"""`python manage.py restore FILE`: a backup into an empty database, brought to this version's tables."""

from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError, CommandParser

from webapp.operation.backups import services
from webapp.operation.backups.archive import BackupError
from webapp.operation.backups.services import Restored
from webapp.operation.management.database import database

MOST_NAMED = 10


class Command(BaseCommand):
    help = "Restore a backup into an empty database; the stack must not be running on this HEADROOM_HOME."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            with database(idle=True) as url:
                restored = services.restore(file, url)
        except BackupError as error:
            raise CommandError(str(error)) from error
        self._say(restored)

    def _say(self, restored: Restored) -> None:
        self.stdout.write(f"restored what was backed up at {restored.manifest.made_at}")
        if not restored.has_key:
            self.stdout.write(
                "the key here is another: people sign in anew, and the secrets of projects, channels and authenticator "
                "apps cannot be opened. Set HEADROOM_SECRET_KEY to the key of then."
            )
        if gone := restored.without_checkpoints:
            named = ", ".join(gone[:MOST_NAMED]) + (", …" if len(gone) > MOST_NAMED else "")
            self.stdout.write(
                f"{len(gone)} {'run has' if len(gone) == 1 else 'runs have'} checkpoints in the index and none here: a "
                f"resume begins anew until HEADROOM_HOME/runs is copied, too ({named})"
            )
