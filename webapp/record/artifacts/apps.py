from django.apps import AppConfig


class ArtifactsConfig(AppConfig):
    name = "webapp.record.artifacts"

    def ready(self) -> None:
        from webapp.record.artifacts import signals  # noqa: F401 - connects them
