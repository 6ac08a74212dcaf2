from django.apps import AppConfig


class SamplesConfig(AppConfig):
    name = "webapp.record.samples"

    def ready(self) -> None:
        from webapp.record.samples import signals  # noqa: F401 - connects them
