"""`python manage.py reset_two_factor USER`: for who lost the app and the recovery codes."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.identity.accounts.models import User
from webapp.identity.signin import sessions, two_factor


class Command(BaseCommand):
    help = "Turn USER's two-factor sign-in off and end all of USER's sessions. The password stays."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['user']!r}")
        if not two_factor.turn_off(user, actor=None):
            raise CommandError(f"{user} has no two-factor sign-in")
        ended = sessions.end_others(user, keep=None)
        self.stdout.write(f"Two-factor sign-in of {user} is off; {ended} sessions ended.")
