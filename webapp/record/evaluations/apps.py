from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.apps import AppConfig

if TYPE_CHECKING:
    from webapp.record.runs.admission.parts import Guest


class EvaluationsConfig(AppConfig):
    name = "webapp.record.evaluations"

    def ready(self) -> None:
        from webapp.record.runs.admission.parts import SOURCES

        SOURCES.append(_guests)


def _guests() -> Sequence["Guest"]:
    """Only who admits jobs needs what tells of them: it imports numpy."""
    from webapp.record.evaluations.queue import guests_of_evaluations

    return guests_of_evaluations()
