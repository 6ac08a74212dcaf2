"""`python manage.py create_project SLUG NAME`: for the operator of the installation."""

from typing import Any

from django.core.management.base import CommandParser

from webapp.identity.accounts.services import DEFAULT_ORGANISATION, found_project
from webapp.operation.management.base import OperatorCommand, organisation_named


class Command(OperatorCommand):
    help = "Make a project with the shipped recipes in it. Its members come by add_member or by invitations."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", metavar="SLUG")
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--organisation", default=DEFAULT_ORGANISATION, metavar="SLUG")

    def handle(self, *args: Any, **options: Any) -> None:
        organisation = organisation_named(options["organisation"])
        project = found_project(organisation, slug=options["slug"], name=options["name"], actor=None)
        self.stdout.write(f"The project {project.slug} is there.")
