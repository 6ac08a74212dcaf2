"""`python manage.py add_member USER PROJECT ROLE`: for the operator of the installation."""

from typing import Any

from django.core.management.base import CommandParser

from webapp.identity.accounts.models import Role
from webapp.identity.accounts.services import put_member
from webapp.operation.management.base import OperatorCommand, project_named, user_named


class Command(OperatorCommand):
    help = "Make USER a member of PROJECT in ROLE, or change the role. Safe to repeat."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER")
        parser.add_argument("project", metavar="PROJECT", help="its slug")
        parser.add_argument("role", metavar="ROLE", choices=Role.values, help=", ".join(Role.values))

    def handle(self, *args: Any, **options: Any) -> None:
        user, project = user_named(options["user"]), project_named(options["project"])
        changed = put_member(project, user, options["role"])
        self.stdout.write(f"{user} is {options['role']} in {project.slug}{'' if changed else ' already'}.")
