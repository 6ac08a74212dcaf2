from django.apps import AppConfig


class SigninConfig(AppConfig):
    name = "webapp.signin"

    def ready(self) -> None:
        from webapp.signin import checks, signals  # noqa: F401  (registers and connects them)
