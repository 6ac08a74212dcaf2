from django.apps import AppConfig


class LogsConfig(AppConfig):
    name = "webapp.record.logs"
