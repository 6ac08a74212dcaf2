"""`python manage.py import_project FILE`: what export_project wrote elsewhere, as a project of this installation."""

import argparse
from pathlib import Path
from typing import Any

from django.core.management import CommandParser

from webapp.identity.accounts.services import DEFAULT_ORGANISATION
from webapp.operation.management.base import OperatorCommand, database, organisation_named
from webapp.operation.project_transfer.importing import Imported, Match, import_project


def _pair(text: str) -> tuple[str, str]:
    there, _, here = text.partition("=")
    if not there or not here:
        raise argparse.ArgumentTypeError(f"{text!r}: write THERE=HERE, two user names")
    return there, here


class Command(OperatorCommand):
    help = "Make a project of what export_project wrote in another installation: all of it, or nothing."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument("--slug", metavar="NEW", help="of the project here; without it, as there")
        parser.add_argument("--organisation", default=DEFAULT_ORGANISATION, metavar="SLUG")
        parser.add_argument(
            "--person", action="append", default=[], type=_pair, metavar="THERE=HERE",
            help="who somebody is here, where user name and e-mail address do not say it; may be repeated",
        )  # fmt: skip

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        with database():
            done = import_project(
                file, organisation_named(options["organisation"]), slug=options["slug"],
                named=dict(options["person"]),
            )  # fmt: skip
        self._say(done)

    def _say(self, done: Imported) -> None:
        rows = {name: part.rows for name, part in done.manifest.parts.items()}
        self.stdout.write(
            f"The project {done.project.slug} is there: {rows['runs_run']:,} runs, {rows['runs_point']:,} points, "
            f"{rows['curves_fit']:,} fits, {rows['predictions_prediction']:,} predictions."
        )
        if done.stopped:
            noun = "run that had" if done.stopped == 1 else "runs that had"
            self.stdout.write(f"{done.stopped} {noun} not ended there: cancelled here.")
        for one in done.people:
            self.stdout.write(_words(one))


def _words(match: Match) -> str:
    there = match.person.username
    if match.made and match.here is not None:
        return f"{there}: not here; the name is kept by {match.here.username}, an account that cannot sign in"
    return f"{there}: {match.here.username} of here" if match.here else f"{there}: not here, and not needed"
