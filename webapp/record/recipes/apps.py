from django.apps import AppConfig


class RecipesConfig(AppConfig):
    name = "webapp.record.recipes"

    def ready(self) -> None:
        from webapp.record.recipes import signals  # noqa: F401  (connects them)
