"""Recipes and revisions: every write.

A recipe that is launched from here may read data inside HEADROOM_HOME/data and models inside the model roots.

Whoever works on the command line reads what they may read anyway; a launch runs as the installation, whose home holds
passwords and tokens.
"""

import os
import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from training.models import is_hub_id, what_there_is
from training.recipe import Recipe as RecipeConfig
from training.recipe import RecipeError, content_hash, load_recipe, parse_recipe, recipe_names
from webapp.base.claims import unless_there
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record
from webapp.record.recipes.models import Recipe, Revision

PATH_OPTIONS = ("path", "held_out_path")
SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?")
SHIPPED = "shipped with Headroom"


def misplaced(recipe: RecipeConfig) -> tuple[str, str] | None:
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
    """Raises RecipeError (model) for a path outside of the model roots, and for a relative one: the same whether
    something is there or not."""
    if "/" not in model or is_hub_id(model):
        return
    try:
        path = Path(model).resolve() if os.path.isabs(model) else Path("/")
    except (OSError, ValueError, RuntimeError):  # a NUL, links in a circle
        path = Path("/")
    if not any(path.is_relative_to(root) and path != root for root in model_roots()):
        hint = what_there_is(Path(settings.HEADROOM_HOME))
        raise RecipeError("model", f"no model named {model!r}; {hint}")


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


@transaction.atomic
def create_recipe(
    *,
    project: Project,
    slug: str,
    name: str,
    config: Mapping[str, Any],
    description: str = "",
    message: str = "",
    user: User | None = None,
) -> Recipe:
    """A recipe with its first revision.

    Raises InvalidInput (fields slug, name, config...) and Conflict where the slug is taken.
    """
    if not SLUG.fullmatch(slug):
        raise InvalidInput("slug", "slug must be 1 to 80 characters: a-z, 0-9 and hyphens between them.")
    if not 1 <= len(name.strip()) <= 100:
        raise InvalidInput("name", "name must have 1 to 100 characters.")
    parsed = parse_config(config)
    with unless_there(Conflict(f"There is already a recipe {slug}.", field="slug")):
        recipe = Recipe.objects.create(project=project, slug=slug, name=name.strip(), description=description)
    _append(recipe, parsed, message, user)
    record("recipe.created", actor=user, project=project, kind="recipe", key=recipe.slug, name=recipe.name)
    return recipe


@transaction.atomic
def add_revision(
    *, recipe: Recipe, config: Mapping[str, Any], message: str = "", user: User | None = None
) -> tuple[Revision, bool]:
    """The recipe's revision with this configuration, and whether it is new: the same content is the same revision.

    Raises InvalidInput where the configuration is no recipe; the field starts with "config".
    """
    parsed = parse_config(config)
    Recipe.objects.select_for_update().get(pk=recipe.pk)  # numbers are given one at a time
    revision, is_new = _append(recipe, parsed, message, user)
    if is_new:
        record(
            "recipe.revised", actor=user, project=recipe.project, kind="recipe", key=recipe.slug, name=recipe.name,
            revision=revision.number,
        )  # fmt: skip
    return revision, is_new


def parse_config(config: Mapping[str, Any]) -> RecipeConfig:
    """The configuration, checked. Raises InvalidInput naming the field under "config"."""
    try:
        parsed = parse_recipe(config)
    except RecipeError as error:
        field = f"config.{error.field}" if error.field else "config"
        raise InvalidInput(field, f"{field}: {error.reason}.") from error
    if wrong := misplaced(parsed):
        field, words = wrong
        raise InvalidInput(f"config.{field}", f"config.{field}: {words}.")
    return parsed


def _append(recipe: Recipe, parsed: RecipeConfig, message: str, user: User | None) -> tuple[Revision, bool]:
    digest = content_hash(parsed)
    if (existing := recipe.revisions.filter(content_hash=digest).first()) is not None:
        return existing, False
    last = recipe.revisions.aggregate(last=Max("number"))["last"] or 0
    revision = Revision.objects.create(
        recipe=recipe,
        number=last + 1,
        config=parsed.model_dump(mode="json"),
        content_hash=digest,
        message=message[:300],
        created_by=user,
    )
    return revision, True


@transaction.atomic
def sync_shipped_recipes(project: Project) -> int:
    """Bring every file of `recipes/` into the project; returns how many revisions are new. Safe to repeat.

    The slug is the file's name with "/" as "-". A file that changed becomes a new revision.
    """
    shipped = shipped_recipes()
    Recipe.objects.bulk_create(
        [
            Recipe(project=project, slug=slug, name=parsed.title, description=parsed.description)
            for slug, parsed, _ in shipped
        ],
        ignore_conflicts=True,
    )
    recipes = {
        recipe.slug: recipe
        for recipe in project.recipes.filter(slug__in=[slug for slug, _, _ in shipped]).prefetch_related(
            "revisions"
        )
    }
    missing = [
        _shipped_revision(recipes[slug], parsed, digest)
        for slug, parsed, digest in shipped
        if digest not in {revision.content_hash for revision in recipes[slug].revisions.all()}
    ]
    Revision.objects.bulk_create(missing)
    return len(missing)


def _shipped_revision(recipe: Recipe, parsed: RecipeConfig, digest: str) -> Revision:
    last = max((revision.number for revision in recipe.revisions.all()), default=0)
    return Revision(
        recipe=recipe,
        number=last + 1,
        config=parsed.model_dump(mode="json"),
        content_hash=digest,
        message=SHIPPED,
    )


@lru_cache(maxsize=1)
def shipped_recipes() -> tuple[tuple[str, RecipeConfig, str], ...]:
    """(slug, configuration, content hash) of each file in `recipes/`; read once a process."""
    loaded = ((name, load_recipe(name)) for name in recipe_names())
    return tuple((_slug_of(name), parsed, content_hash(parsed)) for name, parsed in loaded)


@lru_cache(maxsize=1)
def shipped_slugs() -> frozenset[str]:
    """The slugs of the files in `recipes/`, without reading them."""
    return frozenset(map(_slug_of, recipe_names()))


def _slug_of(name: str) -> str:
    return re.sub("[/.]", "-", name)
