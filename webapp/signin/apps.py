from django.apps import AppConfig


class SigninConfig(AppConfig):
    name = "webapp.signin"

    def ready(self) -> None:
        from webapp.signin import signals  # noqa: F401  (connects them)
