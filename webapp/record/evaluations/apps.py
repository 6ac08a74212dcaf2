from django.apps import AppConfig


class EvaluationsConfig(AppConfig):
    name = "webapp.record.evaluations"
