"""Reading recipes and revisions.

Hints on a configuration for the model that it names or another one. They never refuse anything.
"""

from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Max, OuterRef, Q, QuerySet, Subquery

from training.hints import Hint, hints
from training.models import ModelError, find_model, parameter_count
from training.recipe import RecipeError, parse_recipe
from webapp.base.errors import first_of
from webapp.identity.accounts.models import Project
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.recipes.services import SHIPPED, check_model_place


def recipes_of(project: Project) -> QuerySet[Recipe]:
    """The project's recipes by slug, each with `latest_number`, `latest_hash`, `latest_at` and `run_count`."""
    newest = Revision.objects.filter(recipe=OuterRef("pk")).order_by("-number")
    return (
        Recipe.objects.filter(project=project)
        .annotate(
            latest_number=Subquery(newest.values("number")[:1]),
            latest_hash=Subquery(newest.values("content_hash")[:1]),
            latest_at=Max("revisions__created_at"),
            run_count=Count("revisions__runs", distinct=True),
        )
        .order_by("slug")
    )


def recipe_by_slug(project: Project, slug: str) -> Recipe:
    """The recipe, annotated as in `recipes_of`. Raises NotFound."""
    return first_of(recipes_of(project).filter(slug=slug), f"There is no recipe {slug}.")


def revisions_of(recipe: Recipe) -> QuerySet[Revision]:
    """All revisions, newest first."""
    return recipe.revisions.select_related("created_by").order_by("-number")


def find_revision(project: Project, slug: str, number: int | None) -> Revision | None:
    """A recipe's revision by number, or its newest; None where there is none."""
    revisions = Revision.objects.filter(recipe__project=project, recipe__slug=slug).select_related("recipe")
    if number is not None:
        revisions = revisions.filter(number=number)
    return revisions.order_by("-number").first()


def revisions_with_runs(project: Project, text: str = "") -> QuerySet[Revision]:
    """Revisions that were run, with `run_count`, by recipe, the newest revision first; `text` searches names."""
    found = Revision.objects.filter(recipe__project=project).select_related("recipe").defer("config")
    if text:
        found = found.filter(Q(recipe__name__icontains=text) | Q(recipe__slug__icontains=text))
    counted = found.annotate(run_count=Count("runs")).filter(run_count__gt=0)
    return counted.order_by("recipe__slug", "-number")


def newest_shipped(project: Project) -> dict[str, int]:
    """Slug -> the number of its newest revision that came with Headroom, whatever was launched from it since."""
    shipped = Revision.objects.filter(recipe__project=project, message=SHIPPED).order_by(
        "recipe_id", "number"
    )
    return dict(shipped.values_list("recipe__slug", "number"))


def hints_for(config: Mapping[str, Any]) -> list[Hint]:
    """Hints on a stored or a proposed configuration; none where it is no recipe (the services say that)."""
    try:
        recipe = parse_recipe(config)
    except RecipeError:
        return []
    return hints(recipe, parameters_of(recipe.model))


def parameters_of(model: str) -> int | None:
    """How many parameters the model has; None where it is not on this machine."""
    try:
        check_model_place(model)
        return parameter_count(find_model(model))
    except (ModelError, RecipeError, OSError, ValueError):  # ValueError: a NUL in the name
        return None
