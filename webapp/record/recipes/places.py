"""Where a recipe that is launched from here may read: data inside HEADROOM_HOME/data, models inside the model roots.

Whoever works on the command line reads what they may read anyway; a launch runs as the installation, whose home holds
passwords and tokens.
"""

import os
import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

from training.models import available_models, is_hub_id
from training.recipe import Recipe, RecipeError

PATH_OPTIONS = ("path", "held_out_path")


def misplaced(recipe: Recipe) -> tuple[str, str] | None:
    """(field, what is wrong) where a task or benchmark would read outside of HEADROOM_HOME/data."""
    given = [("task.options", recipe.task.options)]
    given += [("eval.downstream", each.options) for each in recipe.eval.downstream]
    return next(((field, words_on(option)) for field, one in given if (option := outside_data(one))), None)


def outside_data(options: Mapping[str, Any]) -> str | None:
    """The first option of a task whose path leads out of HEADROOM_HOME/data, also of a mixture's part; None where there
    is none."""
    if found := next((name for name in PATH_OPTIONS if _leads_out(options.get(name))), None):
        return found
    parts = options.get("parts")
    inner = (
        [part.get("options") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    )
    return next((option for one in inner if isinstance(one, dict) and (option := outside_data(one))), None)


def words_on(option: str) -> str:
    """What is wrong with this option."""
    return f"option {option} must be a path inside HEADROOM_HOME/data, relative and without leading out of it by .."


def check_model_place(model: str) -> None:
    """Raises RecipeError (model) for a path outside of the model roots: the same whether something is there or not."""
    if "/" not in model or (is_hub_id(model) and not os.path.isdir(model)):
        return
    try:
        path = Path(model).resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL, links in a circle
        path = Path("/")
    if not any(path.is_relative_to(root) and path != root for root in model_roots()):
        known = ", ".join(available_models(Path(settings.HEADROOM_HOME))) or "none yet"
        raise RecipeError("model", f"no model named {model!r}; there are: {known}")


def model_roots() -> list[Path]:
    """Folders below which a model may be named by its path: the installation's own, and HEADROOM_MODEL_ROOTS."""
    home = Path(settings.HEADROOM_HOME)
    named: list[str | Path] = [home / "models", home / "runs", *settings.MODEL_ROOTS]
    return [Path(root).resolve() for root in named]


def _leads_out(path: Any) -> bool:
    if not isinstance(path, str):
        return False
    normal = posixpath.normpath(path)
    return normal == ".." or normal.startswith(("/", "../")) or "\0" in path
