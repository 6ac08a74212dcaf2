from django.apps import AppConfig


class EvaluationsConfig(AppConfig):
    name = "webapp.record.evaluations"

    def ready(self) -> None:
        from webapp.record.evaluations.queue import guests_of_evaluations
        from webapp.record.runs.admission.guests import SOURCES

        SOURCES.append(guests_of_evaluations)
