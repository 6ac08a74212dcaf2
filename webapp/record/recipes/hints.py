"""Hints on a configuration for the model that it names or another one. They never refuse anything."""

from collections.abc import Mapping
from typing import Any

from training.hints import Hint, hints
from training.models import ModelError, find_model, parameter_count
from training.recipe import RecipeError, parse_recipe
from webapp.record.recipes.places import check_model_place


def hints_for(config: Mapping[str, Any], model: str | None = None) -> list[Hint]:
    """Hints on a stored or a proposed configuration; none where it is no recipe (the services say that)."""
    try:
        recipe = parse_recipe(config)
    except RecipeError:
        return []
    return hints(recipe, parameters_of(recipe.model if model is None else model))


def parameters_of(model: str) -> int | None:
    """How many parameters the model has; None where it is not on this machine."""
    try:
        check_model_place(model)
        return parameter_count(find_model(model))
    except (ModelError, RecipeError, OSError, ValueError):  # ValueError: a NUL in the name
        return None
