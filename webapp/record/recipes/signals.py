"""A new project has the shipped recipes in it."""

from typing import Any

from django.dispatch import receiver

from webapp.identity.accounts.events import project_created
from webapp.identity.accounts.models import Project
from webapp.record.recipes.services import sync_shipped_recipes


@receiver(project_created)
def with_shipped_recipes(project: Project, **_: Any) -> None:
    sync_shipped_recipes(project)
