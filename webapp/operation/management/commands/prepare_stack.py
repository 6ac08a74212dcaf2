"""`python manage.py prepare_stack`: what a database needs before the first request. Safe to repeat."""

import json
from typing import Any

from django.core.management import BaseCommand, CommandError, CommandParser, call_command

from webapp.identity.accounts.models import Project
from webapp.identity.accounts.services import default_project, first_account
from webapp.interfaces.assets import collect_assets
from webapp.record.health import patience
from webapp.record.recipes.services import sync_shipped_recipes


class Command(BaseCommand):
    help = "Migrate, collect the assets, make the default project and the first account, bring in the shipped recipes."
    requires_system_checks = ["headroom"]  # of our own settings alone

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--username", default="admin")

    def handle(self, *args: Any, username: str, **options: Any) -> None:
        """Prints {"password": ...} as its last line; null where accounts exist already.

        Changes nothing in a database of a newer version."""
        if unknown := patience.unknown_migrations():
            raise CommandError(patience.new_words(unknown))
        call_command("migrate", interactive=False, verbosity=0)
        collect_assets()
        default_project()
        password = first_account(username)
        for project in Project.objects.filter(is_example=False):
            sync_shipped_recipes(project)
        self.stdout.write(json.dumps({"password": password}))
