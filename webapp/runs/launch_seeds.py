"""Launching one configuration with several seeds; what its recipe does not say yet becomes a new revision first."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from webapp.accounts.models import Project, User
from webapp.accounts.permissions import Permission, require
from webapp.errors import InvalidInput
from webapp.recipes.models import Revision
from webapp.recipes.services import add_revision_once
from webapp.runs.launch import launch_run_once
from webapp.runs.models import Run
from webapp.runs.once import Launched

MAX_SEEDS = 4


@transaction.atomic
def launch_seeds(
    *,
    user: User | None,
    project: Project,
    revision: Revision,
    config: Mapping[str, Any] | None,
    message: str,
    task: str,
    model: str,
    seeds: Sequence[int],
    budget_hours: float,
    name: str = "",
    priority: int = Run.Priority.NORMAL,
    retries: int | None = None,
    draft: bool = False,
    idempotency_key: str | None = None,
) -> list[Launched]:
    """One run for each seed, of `revision` or, with a `config`, of the recipe's revision that says it: all or none.

    With `draft` they are saved and not launched. A repeated call with the same key launches nothing again. A person
    needs LAUNCH: raises Forbidden or NotFound without it, InvalidInput (fields seeds, config..., and those of
    `launch_run_once`) and Conflict where the key was used for another request; then nothing is stored.
    """
    if user is not None:
        require(user, project, Permission.LAUNCH)
    if not 1 <= len(seeds) <= MAX_SEEDS or len(set(seeds)) < len(seeds):
        raise InvalidInput("seeds", f"seeds must be 1 to {MAX_SEEDS} different whole numbers.")
    if config is not None:
        revision, _ = add_revision_once(recipe=revision.recipe, config=config, message=message, user=user)
    return [
        launch_run_once(
            user=user, project=project, recipe=revision.recipe.slug, revision=revision.number, task=task, model=model,
            seed=seed, budget_hours=budget_hours, name=name, priority=priority, retries=retries, draft=draft,
            idempotency_key=_key(idempotency_key, place),
        )
        for place, seed in enumerate(seeds)
    ]  # fmt: skip


def _key(key: str | None, place: int) -> str | None:
    """Each run has a key of its own; that of the first is the request's."""
    return key if key is None or place == 0 else f"{key}/{place}"
