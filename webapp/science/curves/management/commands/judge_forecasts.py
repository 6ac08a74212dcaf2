"""`python manage.py judge_forecasts`: judge the forecasts of every ended run now, instead of a few at a time."""

from typing import Any

from django.core.management import BaseCommand

from webapp.science.curves.record.keeping import keep_overdue


class Command(BaseCommand):
    help = "Forecast and judge every ended run that waits for it. Workers do the same by and by; safe beside them."

    def handle(self, *args: Any, **options: Any) -> None:
        looked = keep_overdue(seconds=float("inf"))
        self.stdout.write(f"{looked} run{'' if looked == 1 else 's'} judged.")
