from django.apps import AppConfig


class SigninConfig(AppConfig):
    name = "webapp.identity.signin"

    def ready(self) -> None:
        from webapp.identity.signin import signals  # noqa: F401  (registers and connects them)
