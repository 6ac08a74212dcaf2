from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "webapp.reporting.alerts"

    def ready(self) -> None:
        from webapp.identity.accounts.events import noticed
        from webapp.reporting.alerts.firing import on_noticed

        noticed.connect(on_noticed)
