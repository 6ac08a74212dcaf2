"""`python manage.py restore FILE`: a backup into an empty database, brought to this version's tables."""

from pathlib import Path
from typing import Any

from django.core.management import CommandParser

from webapp.operation import backups
from webapp.operation.management.base import OperatorCommand, database


class Command(OperatorCommand):
    help = "Restore a backup into an empty database; the stack must not be running on this HEADROOM_HOME."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        with database(idle=True) as url:
            opens_secrets = backups.restore(file, url)
        self.stdout.write(f"restored {file}")
        if not opens_secrets:
            self.stdout.write(
                "the key here is another: people sign in anew, and the secrets of projects, channels and authenticator "
                "apps cannot be opened. Set HEADROOM_SECRET_KEY to the key of then."
            )
