"""What a trainer that runs elsewhere says of its run after it was made: a name, words, more of its configuration."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction

from webapp.base.errors import Conflict, InvalidInput
from webapp.record.runs.bounds import MAX_TAGS, clean_name, clean_tags
from webapp.record.runs.models import Run
from webapp.record.runs.states import bump

MAX_CONFIG_CHARACTERS = 1_000_000  # of all of it as JSON


@transaction.atomic
def report_described(
    run: Run, *, name: str = "", tags: Iterable[str] = (), config: Mapping[str, Any] | None = None
) -> Run:
    """Rename the run, add tags to those that it has, and set these entries of its configuration; what is not named
    stays. Safe to repeat.

    Raises InvalidInput (name, tags, config), and Conflict for a run that was launched here.
    """
    held = Run.objects.select_for_update().get(pk=run.pk)
    if held.origin != Run.Origin.TRACKED:
        raise Conflict("This run was launched here: its configuration is what it trains with.")
    said = {
        "name": clean_name(name) or held.name,
        "tags": sorted({*held.tags, *clean_tags(tags)}),
        "config": {**held.config, **(config or {})},
    }
    fresh = {field: value for field, value in said.items() if value != getattr(held, field)}
    _check_room(fresh)
    if fresh:
        bump(run.pk, **fresh)
        run.refresh_from_db()
    return run


def _check_room(fresh: Mapping[str, Any]) -> None:
    if len(fresh.get("tags", ())) > MAX_TAGS:
        raise InvalidInput("tags", f"tags: a run has at most {MAX_TAGS}.")
    if len(json.dumps(fresh.get("config", {}))) > MAX_CONFIG_CHARACTERS:
        raise InvalidInput(
            "config", f"config: a configuration has at most {MAX_CONFIG_CHARACTERS:,} characters of JSON."
        )
