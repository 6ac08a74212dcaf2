from typing import Any

from django.apps import AppConfig


class RecipesConfig(AppConfig):
    name = "webapp.record.recipes"

    def ready(self) -> None:
        from webapp.identity.accounts.models import project_created

        project_created.connect(with_shipped_recipes)


def with_shipped_recipes(project: Any, **_: Any) -> None:
    """A new project has the shipped recipes in it."""
    from webapp.record.recipes.services import sync_shipped_recipes

    sync_shipped_recipes(project)
