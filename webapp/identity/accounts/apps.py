from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "webapp.identity.accounts"

    def ready(self) -> None:
        from webapp.identity.accounts import log  # noqa: F401  (connects them)
