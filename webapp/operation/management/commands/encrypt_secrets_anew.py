"""`python manage.py encrypt_secrets_anew`: after a new key was put in front in HEADROOM_SECRETS_KEY."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from webapp.identity.secrets.models import Undecipherable
from webapp.identity.secrets.services import encrypt_anew


class Command(BaseCommand):
    help = "Encrypt the secrets of all projects with the first key of HEADROOM_SECRETS_KEY."
    requires_system_checks = ["headroom"]  # of our own settings alone

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(f"{encrypt_anew()} secrets are encrypted with the first key.")
        except Undecipherable as error:
            raise CommandError(f"no key opens the secret {error}; nothing was changed") from None
