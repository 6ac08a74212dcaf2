"""`python manage.py backup FILE`: database, index of the checkpoints and settings in one file, at any time."""

from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError, CommandParser

from webapp.operation.backups import services
from webapp.operation.backups.archive import BackupError
from webapp.operation.management.database import database


class Command(BaseCommand):
    help = (
        "Write a backup: all that is in the database, and an index of the checkpoints, not these themselves."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument(
            "--with-key",
            action="store_true",
            help="also the key that signs sessions and opens the secrets of projects: who has the file has them",
        )

    def handle(self, *args: Any, file: Path, with_key: bool, **options: Any) -> None:
        try:
            with database() as url:
                manifest = services.back_up(file, url, with_key=with_key)
        except BackupError as error:
            raise CommandError(str(error)) from error
        runs = len(manifest.checkpoints)
        self.stdout.write(
            f"{file}: {file.stat().st_size / 1e6:.1f} MB, {len(manifest.migrations)} migrations, "
            f"checkpoints of {runs} {'run' if runs == 1 else 'runs'} in the index"
            + ("" if with_key else "; the key is not in it")
        )
