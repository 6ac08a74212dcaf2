"""`python manage.py create_token USER`: print an API token, alone on a line, once."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.accounts.models import Project, Scope, User
from webapp.accounts.services import DEFAULT_PROJECT, create_token
from webapp.errors import InvalidInput


class Command(BaseCommand):
    help = "Print a new API token for USER. It is shown once; only its digest is stored."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER")
        parser.add_argument("--scope", choices=Scope.values, default=Scope.LAUNCH.value)
        parser.add_argument("--project", default=DEFAULT_PROJECT, metavar="SLUG")
        parser.add_argument(
            "--days", type=int, metavar="N", help="how long it opens the project; default: for ever"
        )
        parser.add_argument("--name", default="", help="what it is for")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['user']!r}")
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"there is no project {options['project']!r}")
        try:
            token = create_token(
                user=user,
                project=project,
                scope=options["scope"],
                days=options["days"],
                name=options["name"],
            )
        except InvalidInput as error:
            raise CommandError(error.message) from error
        self.stdout.write(token)
