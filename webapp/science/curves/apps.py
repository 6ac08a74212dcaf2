from django.apps import AppConfig


class CurvesConfig(AppConfig):
    name = "webapp.science.curves"

    def ready(self) -> None:
        from webapp.record.runs.deleting import deleted_or_restored
        from webapp.science.curves.record.recalibrating import note_changed

        deleted_or_restored.connect(note_changed)
