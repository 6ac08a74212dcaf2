"""`python manage.py reset_two_factor USER`: for who lost the app and the recovery codes."""

from typing import Any

from allauth.mfa.models import Authenticator
from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from webapp.identity.signin import forms, sessions
from webapp.operation.management.base import OperatorCommand, user_named


class Command(OperatorCommand):
    help = (
        "Remove USER's app, passkeys and recovery codes and end all of USER's sessions. The password stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER")

    def handle(self, *args: Any, **options: Any) -> None:
        user = user_named(options["user"])
        if not forms.has_second_factor(user):
            raise CommandError(f"{user} has no two-factor sign-in")
        with transaction.atomic():
            Authenticator.objects.filter(user=user).delete()
            ended = sessions.end_others(user, keep=None)
        self.stdout.write(f"Two-factor sign-in of {user} is off; {ended} sessions ended.")
