"""Launching one configuration with several seeds; what its recipe does not say yet becomes a new revision first."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.record.recipes.services import add_revision
from webapp.record.runs.launch import LaunchRequest, launch_run, revision_of
from webapp.record.runs.once import Launched

MAX_SEEDS = 4


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
