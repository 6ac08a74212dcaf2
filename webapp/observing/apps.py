from django.apps import AppConfig


class ObservingConfig(AppConfig):
    name = "webapp.observing"

    def ready(self) -> None:
        from webapp.observing import checks  # noqa: F401 (registers itself)
