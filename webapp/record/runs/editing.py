"""Putting right what is said of a run: name, tags and notes of any run; of one that trains elsewhere also task, model,
seed and the meaning of its metrics. What a launch has determined stays.

What a trainer that runs elsewhere says of its run after it was made: a name, words, more of its configuration.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.db import transaction

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import User
from webapp.identity.audit.services import record
from webapp.record.runs.bounds import (
    MAX_MODEL,
    MAX_TAGS,
    MAX_TASK,
    check_seed,
    clean_name,
    clean_notes,
    clean_tags,
    clean_text,
)
from webapp.record.runs.launch import UNSTATED
from webapp.record.runs.meaning import meaning_of, state_meaning
from webapp.record.runs.models import Run
from webapp.record.runs.states import bump

MEANING = "meaning"
DETERMINED = ("task", "model", "seed", MEANING)  # by the launch, of a run that was launched here
SHOWN_CHARACTERS = 200  # of notes, in the audit log
MAX_CONFIG_CHARACTERS = 1_000_000  # of all of it as JSON


def _name(value: str) -> str:
    name = clean_name(value)
    if not name:
        raise InvalidInput("name", "name must not be empty.")
    return name


def _seed(value: int) -> int:
    check_seed(value)
    return value


_CLEAN: dict[str, Callable[[Any], Any]] = {
    "name": _name,
    "tags": clean_tags,
    "notes": clean_notes,
    "task": lambda value: clean_text("task", value, MAX_TASK) or UNSTATED,
    "model": lambda value: clean_text("model", value, MAX_MODEL) or UNSTATED,
    "seed": _seed,
}
FIELDS = (*_CLEAN, MEANING)


@transaction.atomic
def change_run(run: Run, changes: Mapping[str, Any], *, user: User | None) -> Run:
    """Change the fields (of FIELDS) that are named, all of them or none; what is not named stays. `meaning` is a
    mapping of fields of `meaning.Meaning`, of which those that are not named stay, too.

    Predictions keep the task and model that they were made for. Raises InvalidInput naming the field, and Conflict for
    what a launch determined, and what `state_meaning`
    raises.
    """
    held = Run.objects.select_for_update().get(pk=run.pk)
    determined = [field for field in DETERMINED if field in changes]
    if determined and held.origin == Run.Origin.LAUNCHED:
        raise Conflict(
            f"This run was launched here: its {determined[0]} is what it trains with.", field=determined[0]
        )
    fresh = {field: value for field, value in cleaned(changes).items() if getattr(held, field) != value}
    if fresh:
        bump(run.pk, **fresh)
        _tell(held, fresh, user)
    if MEANING in changes:
        state_meaning(run, replace(meaning_of(held), **changes[MEANING]), user=user)
    run.refresh_from_db()
    return run


def cleaned(changes: Mapping[str, Any]) -> dict[str, Any]:
    """What `change_run` would store of them, but for the meaning. Raises InvalidInput naming the field."""
    unknown = [field for field in changes if field not in FIELDS]
    if unknown:
        raise InvalidInput(unknown[0], f"{unknown[0]} cannot be changed: what can is {', '.join(FIELDS)}.")
    return {field: _CLEAN[field](value) for field, value in changes.items() if field != MEANING}


def _tell(before: Run, fresh: Mapping[str, Any], user: User | None) -> None:
    told = {field: [_shown(getattr(before, field)), _shown(value)] for field, value in fresh.items()}
    name = fresh.get("name", before.name)
    record(
        "run.changed", actor=user, project=before.project, kind="run", key=before.pk, name=name, changes=told
    )


def _shown(value: Any) -> Any:
    """For the audit log."""
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return value[:SHOWN_CHARACTERS] or "none" if isinstance(value, str) else value


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
