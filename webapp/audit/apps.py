from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "webapp.audit"

    def ready(self) -> None:
        from webapp.audit import signals  # noqa: F401  (connects them)
