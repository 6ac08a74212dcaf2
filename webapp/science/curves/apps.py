from typing import Any

from django.apps import AppConfig


class CurvesConfig(AppConfig):
    name = "webapp.science.curves"

    def ready(self) -> None:
        from webapp.record.runs.models import deleted_or_restored

        deleted_or_restored.connect(note_changed)


def note_changed(**told: Any) -> None:
    """Imported here: with it comes numpy, which not every process needs."""
    from webapp.science.curves.record import recalibrating

    recalibrating.note_changed(**told)
