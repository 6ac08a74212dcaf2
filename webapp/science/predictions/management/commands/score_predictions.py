"""`python manage.py score_predictions`: make the outcomes that are due, without waiting for the worker."""

from typing import Any

from django.core.management import BaseCommand

from webapp.science.predictions.models import Pending
from webapp.science.predictions.scoring import score_all


class Command(BaseCommand):
    help = "Score every open prediction by the runs that passed its target. Safe to repeat, and beside the worker."

    def handle(self, *args: Any, **options: Any) -> None:
        made = score_all()
        for outcome in made:
            self.stdout.write(f"{outcome.prediction_id}: {outcome.how['words']}")
        waiting = Pending.objects.count()
        self.stdout.write(
            f"{len(made)} outcome{'' if len(made) == 1 else 's'} made, {waiting} cannot be told yet."
        )
