"""`python manage.py password_link USER`: print a link with which USER sets a password, once."""

from typing import Any
from urllib.parse import urljoin

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.identity.accounts.log import record_account
from webapp.identity.accounts.models import User
from webapp.identity.signin.passwords import link_path


class Command(BaseCommand):
    help = "Print a link with which USER sets a new password. It works once, for a day; give it to USER only."
    requires_system_checks = ["headroom"]  # of our own settings alone

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER")
        parser.add_argument(
            "--url", help="where people reach the pages; by default HEADROOM_URL", default=None
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(f"there is no active user {options['user']!r}")
        base = options["url"] or settings.HEADROOM_URL
        if not base:
            raise CommandError(
                "where are the pages? Set HEADROOM_URL, or say --url https://headroom.example.com"
            )
        record_account("password.link_made", user, actor=None)
        self.stdout.write(urljoin(base, link_path(user)))
