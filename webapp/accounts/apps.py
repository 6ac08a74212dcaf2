from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "webapp.accounts"

    def ready(self) -> None:
        from webapp.accounts import signals  # noqa: F401  (connects them)
