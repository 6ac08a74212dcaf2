"""`python manage.py create_token USER`: print an API token, alone on a line, once."""

from typing import Any

from django.core.management.base import CommandParser

from webapp.identity.accounts.models import Scope
from webapp.identity.accounts.services import DEFAULT_PROJECT, create_token
from webapp.operation.management.base import OperatorCommand, project_named, user_named


class Command(OperatorCommand):
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
        user, project = user_named(options["user"]), project_named(options["project"])
        token = create_token(
            user=user,
            project=project,
            scope=options["scope"],
            days=options["days"],
            name=options["name"],
        )
        self.stdout.write(token)
