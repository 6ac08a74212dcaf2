from django.apps import AppConfig
from django.conf import settings


class ObservingConfig(AppConfig):
    name = "webapp.operation.observing"

    def ready(self) -> None:
        from observability import errors
        from webapp.operation.observing import exposition  # noqa: F401 (registers itself)

        errors.hide([settings.SECRET_KEY])
        errors.install()
