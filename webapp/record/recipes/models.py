"""Recipes and their immutable revisions."""

from django.conf import settings
from django.db import models

from webapp.identity.accounts.models import Project


class Recipe(models.Model):
    """A named RL configuration; what it says is in its revisions."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="recipes")
    slug = models.SlugField(max_length=80)
    name = models.CharField(max_length=100)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "slug"], name="recipe_slug_unique_in_project")
        ]
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.name


class Revision(models.Model):
    """One configuration of a recipe. A row never changes: a database trigger refuses UPDATE."""

    recipe = models.ForeignKey(Recipe, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    config = models.JSONField()  # training.recipe.Recipe, complete, as JSON
    content_hash = models.CharField(max_length=64)  # SHA-256 of the canonical JSON of config
    message = models.CharField(max_length=300, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, db_constraint=False
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["recipe", "number"], name="revision_number_unique"),
            models.UniqueConstraint(fields=["recipe", "content_hash"], name="revision_content_unique"),
        ]
        ordering = ["recipe_id", "number"]

    def __str__(self) -> str:
        return f"{self.recipe.name} rev {self.number}"
