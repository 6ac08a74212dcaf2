from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "webapp.record.runs"
