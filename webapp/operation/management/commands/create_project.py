"""`python manage.py create_project SLUG NAME`: for the operator of the installation."""

from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from webapp.identity.accounts.services import DEFAULT_ORGANISATION, checked_name, checked_slug, create_project
from webapp.identity.audit.services import record
from webapp.operation.management.base import OperatorCommand, organisation_named


class Command(OperatorCommand):
    help = "Make a project with the shipped recipes in it. Its members come by add_member or by invitations."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", metavar="SLUG")
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--organisation", default=DEFAULT_ORGANISATION, metavar="SLUG")

    def handle(self, *args: Any, **options: Any) -> None:
        organisation = organisation_named(options["organisation"])
        with transaction.atomic():
            project = create_project(
                slug=checked_slug(options["slug"]), name=checked_name(options["name"]),
                organisation=organisation,
            )  # fmt: skip
            record(
                "project.created", actor=None, project=project, kind="project", key=project.slug,
                name=project.name,
            )  # fmt: skip
        self.stdout.write(f"The project {project.slug} is there.")
