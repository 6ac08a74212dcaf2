"""`python manage.py export_project SLUG FILE`: one project in a file that another installation imports."""

from pathlib import Path
from typing import Any

from django.core.management import CommandParser

from webapp.operation.management.base import OperatorCommand, database, project_named
from webapp.operation.project_transfer.tables import export_project


class Command(OperatorCommand):
    help = "Write one project with its recipes, runs, points, fits, predictions and reports into FILE, at any time."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", metavar="SLUG")
        parser.add_argument("file", type=Path, metavar="FILE")

    def handle(self, *args: Any, slug: str, file: Path, **options: Any) -> None:
        with database():
            manifest = export_project(project_named(slug), file)
        rows = {name: part.rows for name, part in manifest.parts.items()}
        self.stdout.write(
            f"{file}: {file.stat().st_size / 1e6:.1f} MB, {rows['runs_run']:,} runs, {rows['runs_point']:,} points, "
            f"{rows['curves_fit']:,} fits, {rows['predictions_prediction']:,} predictions"
        )
