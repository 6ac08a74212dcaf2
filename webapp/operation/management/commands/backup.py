"""`python manage.py backup FILE`: the whole database in one file, at any time."""

from pathlib import Path
from typing import Any

from django.core.management import CommandParser

from webapp.operation.backups import back_up
from webapp.operation.management.base import OperatorCommand, database


class Command(OperatorCommand):
    help = "Write all that is in the database into a file: pg_dump's custom format, gzipped."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        with database() as url:
            back_up(file, url)
        self.stdout.write(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
