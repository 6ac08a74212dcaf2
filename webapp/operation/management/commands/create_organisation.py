"""`python manage.py create_organisation SLUG NAME OWNER`: for the operator of the installation."""

from typing import Any

from django.core.management.base import CommandParser

from webapp.identity.accounts.services import found_organisation
from webapp.operation.management.base import OperatorCommand, user_named


class Command(OperatorCommand):
    help = "Make an organisation. Its first project comes by create_project SLUG NAME --organisation SLUG."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", metavar="SLUG")
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("owner", metavar="OWNER", help="the account that owns it")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = user_named(options["owner"])
        made = found_organisation(slug=options["slug"], name=options["name"], owner=owner)
        self.stdout.write(f"The organisation {made.slug} is there, owned by {owner}.")
