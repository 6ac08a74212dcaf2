"""`python manage.py judge_alarms`: after a change of thresholds, have every run judged by the new ones."""

from typing import Any

from webapp.operation.management.base import OperatorCommand
from webapp.reporting.alarms.services import judge_all_anew


class Command(OperatorCommand):
    help = "Have every run judged anew by the rules in force; the worker does it within seconds."

    def handle(self, *args: Any, **options: Any) -> None:
        count = judge_all_anew()
        self.stdout.write(f"{count} run{'' if count == 1 else 's'} will be judged anew.")
