"""`python manage.py rebuild_summaries`: the list's summaries anew, after data were brought in past the services."""

from typing import Any

from webapp.operation.management.base import OperatorCommand
from webapp.science.curves.services import rebuild_all


class Command(OperatorCommand):
    help = "Make the summary of every run anew from its records, evaluations and fits. Safe while trainers report."

    def handle(self, *args: Any, **options: Any) -> None:
        looked = changed = 0
        for number, different in rebuild_all():
            looked, changed = looked + number, changed + different
        self.stdout.write(f"{looked} run{'' if looked == 1 else 's'} looked at, {changed} changed.")
