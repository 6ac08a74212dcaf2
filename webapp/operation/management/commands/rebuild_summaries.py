"""`python manage.py rebuild_summaries`: the list's summaries anew, after data were brought in past the services."""

from typing import Any

from django.core.management import BaseCommand

from webapp.science.curves.services import rebuild_all


class Command(BaseCommand):
    help = "Make the summary of every run anew from its records, evaluations and fits. Safe while trainers report."
    requires_system_checks = ["headroom"]  # of our own settings alone

    def handle(self, *args: Any, **options: Any) -> None:
        looked = changed = 0
        for number, different in rebuild_all():
            looked, changed = looked + number, changed + different
        self.stdout.write(f"{looked} run{'' if looked == 1 else 's'} looked at, {changed} changed.")
