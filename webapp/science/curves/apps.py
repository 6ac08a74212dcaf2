from typing import Any

from django.apps import AppConfig


class CurvesConfig(AppConfig):
    name = "webapp.science.curves"

    def ready(self) -> None:
        from webapp.record.runs.deleting import deleted_or_restored

        deleted_or_restored.connect(_read_record_anew)


def _read_record_anew(run: Any, **_: Any) -> None:
    """A deleted run is no part of its project's record."""
    from webapp.science.curves.record.recalibrating import note_changed

    note_changed(run.project)
