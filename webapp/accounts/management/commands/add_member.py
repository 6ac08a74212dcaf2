"""`python manage.py add_member USER PROJECT ROLE`: for the operator of the installation."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.accounts.members import put_member
from webapp.accounts.models import Project, Role, User
from webapp.errors import ServiceError


class Command(BaseCommand):
    help = "Make USER a member of PROJECT in ROLE, or change the role. Safe to repeat."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER")
        parser.add_argument("project", metavar="PROJECT", help="its slug")
        parser.add_argument("role", metavar="ROLE", choices=Role.values, help=", ".join(Role.values))

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['user']!r}")
        project = Project.objects.filter(slug=options["project"]).first()
        if project is None:
            raise CommandError(f"there is no project {options['project']!r}")
        try:
            changed = put_member(project, user, options["role"])
        except ServiceError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{user} is {options['role']} in {project.slug}{'' if changed else ' already'}.")
