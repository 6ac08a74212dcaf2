from typing import Any

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "webapp.reporting.alerts"

    def ready(self) -> None:
        from webapp.identity.accounts.models import noticed

        noticed.connect(on_noticed)


def on_noticed(user: Any, project: Any, kind: str, text: str, url: str, **_: Any) -> None:
    """Imported here: with it comes numpy, which not every process needs."""
    from webapp.reporting.alerts import firing

    firing.notify(user, project=project, kind=kind, text=text, url=url)
