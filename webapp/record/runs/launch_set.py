"""Launching runs that are meant to be compared: each recipe with each seed, all of them or none.

Launching one configuration with several seeds; what its recipe does not say yet becomes a new revision first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from training.recipe import recipe_names
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.record.recipes.models import Revision
from webapp.record.recipes.selectors import find_revision
from webapp.record.recipes.services import add_revision
from webapp.record.runs.launch import Launched, LaunchRequest, launch_run, revision_of
from webapp.record.runs.models import Run

MAX_RUNS = 500
MAX_SEEDS = 4


def leave_one_out(size: str = "") -> list[str]:
    """Slugs of ScaleRL and of the paper's leave-one-out recipes; with size "tiny", of their overlays."""
    prefix = f"{size}/" if size else ""
    wanted = [
        name for name in recipe_names() if name == f"{prefix}scalerl" or name.startswith(f"{prefix}loo-")
    ]
    return [name.replace("/", "-") for name in wanted]


@dataclass(frozen=True, kw_only=True)
class RunSet:
    """Runs to compare, by the slugs of their recipes. Task, model and budget None: each recipe's own."""

    recipes: Sequence[str]
    seeds: Sequence[int]
    label: str
    task: str | None = None
    model: str | None = None
    budget_hours: float | None = None
    priority: int = Run.Priority.NORMAL

    def check(self) -> None:
        """Raises InvalidInput (recipes, seeds, label)."""
        for field, values in (("recipes", self.recipes), ("seeds", self.seeds)):
            if not values or len(set(values)) < len(values):
                raise InvalidInput(field, f"{field} must name at least one, each once.")
        count = len(self.recipes) * len(self.seeds)
        if count > MAX_RUNS:
            raise InvalidInput("seeds", f"a set has at most {MAX_RUNS} runs, not {count}.")
        if not self.label.strip() or not self.label.isprintable() or len(self.label) > 60:
            raise InvalidInput("label", "label must have 1 to 60 printable characters.")


@transaction.atomic
def launch_set(wanted: RunSet, *, user: User | None, project: Project) -> list[Launched]:
    """One run for each recipe and seed, of the newest revisions, seeds in the outer order.

    The same label, recipe and seed are the same run: a repeated call launches what is missing. On an error nothing is
    launched. Raises InvalidInput (fields recipes, seeds, label, and those of `launch_run`) and Conflict where the label
    was used with other settings.
    """
    wanted.check()
    revisions = [_newest(project, slug) for slug in wanted.recipes]
    launched = []
    for seed in wanted.seeds:
        for revision in revisions:
            key = f"set/{wanted.label}/{revision.recipe.slug}/{seed}"
            config, hours = revision.config, wanted.budget_hours
            request = LaunchRequest(
                recipe=revision.recipe.slug,
                revision=revision.number,
                task=wanted.task or config["task"]["name"],
                model=wanted.model or config["model"],
                seed=seed,
                budget_hours=config["budget"]["device_hours"] if hours is None else hours,
                priority=wanted.priority,
            )
            launched.append(launch_run(request, user=user, project=project, idempotency_key=key))
    return launched


def _newest(project: Project, slug: str) -> Revision:
    if (found := find_revision(project, slug, None)) is None:
        raise InvalidInput("recipes", f"There is no recipe {slug}.")
    return found


@transaction.atomic
def launch_seeds(
    request: LaunchRequest,
    seeds: Sequence[int],
    *,
    user: User | None,
    project: Project,
    config: Mapping[str, Any] | None = None,
    message: str = "",
    idempotency_key: str | None = None,
) -> list[Launched]:
    """One run for each seed, of the request's revision or, with a `config`, of the recipe's revision that says it:
    all or none. The request's own seed does not count.

    A repeated call with the same key launches nothing again. Raises InvalidInput (fields seeds, config..., and those of
    `launch_run`) and Conflict where the key was used
    for another request; then nothing is stored.
    """
    if not 1 <= len(seeds) <= MAX_SEEDS or len(set(seeds)) < len(seeds):
        raise InvalidInput("seeds", f"seeds must be 1 to {MAX_SEEDS} different whole numbers.")
    if config is not None:
        recipe = revision_of(project, request.recipe, request.revision).recipe
        revision, _ = add_revision(recipe=recipe, config=config, message=message, user=user)
        request = replace(request, revision=revision.number)
    return [
        launch_run(
            replace(request, seed=seed),
            user=user,
            project=project,
            idempotency_key=_key(idempotency_key, place),
        )
        for place, seed in enumerate(seeds)
    ]


def _key(key: str | None, place: int) -> str | None:
    """Each run has a key of its own; that of the first is the request's."""
    return key if key is None or place == 0 else f"{key}/{place}"
