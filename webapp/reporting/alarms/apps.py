from django.apps import AppConfig


class AlarmsConfig(AppConfig):
    name = "webapp.reporting.alarms"

    def ready(self) -> None:
        from webapp.reporting.alarms import checks  # noqa: F401 (registers itself)
