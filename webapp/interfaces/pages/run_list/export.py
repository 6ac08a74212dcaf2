"""The runs list as a file: what the filter leaves, in its order, with the columns that are shown, as plain values."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from webapp.base.errors import InvalidInput
from webapp.base.formats import lines, utc
from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.run_list.columns import Row, is_setting, rows_of
from webapp.interfaces.pages.run_list.listing import MAX_TOTAL, ListState, everything, runs_with_settings
from webapp.record.runs.filtering import Compiled
from webapp.record.runs.ingest import summary_of
from webapp.science.curves.words import DEFAULT_LEVEL

BATCH = 500  # runs that are in memory at a time
Values = dict[str, Any]


def ids_of(project: Project, state: ListState, compiled: Compiled, most: int = MAX_TOTAL) -> list[str]:
    """Ids of the runs that the filter leaves, in the list's order. Raises InvalidInput beyond `most` of them."""
    ids = everything(compiled, project, most, state.sort)
    if len(ids) > most:
        raise InvalidInput("filter", f"More than {most:,} runs fit: narrow the filter.")
    return ids


def values_of(project: Project, ids: Sequence[str], columns: Sequence[str]) -> Iterator[Values]:
    """A mapping for each run, names as in `names_of`; a constant number of queries for each BATCH of runs."""
    for some in (ids[start : start + BATCH] for start in range(0, len(ids), BATCH)):
        for row in rows_of(runs_with_settings(project, some, columns)):
            yield _values(row, columns)


def names_of(columns: Sequence[str]) -> list[str]:
    """The names of a file's columns: the id, then those of each column that is shown, each once."""
    names = ["id", *(name for key in columns for name in ([key] if is_setting(key) else PARTS[key]))]
    return list(dict.fromkeys(names))


def csv_lines(rows: Iterable[Values], columns: Sequence[str]) -> Iterator[str]:
    """With a header; no text becomes a formula in a spreadsheet."""
    names = names_of(columns)
    yield lines([names])
    for row in rows:
        yield lines([[_cell(row[name]) for name in names]])


def json_pieces(rows: Iterable[Values], state: ListState) -> Iterator[str]:
    """An object with the filter, the order, and the runs; in pieces that together are one JSON text."""
    asked = json.dumps({"filter": state.filter, "sort": state.sort}, ensure_ascii=False)
    yield f'{asked[:-1]}, "runs": ['
    for number, row in enumerate(rows):
        yield ("," if number else "") + "\n" + json.dumps(row, ensure_ascii=False, allow_nan=False)
    yield "\n]}\n"


def _values(row: Row, columns: Sequence[str]) -> Values:
    known: Values = {"id": row.run.pk}
    for key in columns:
        if is_setting(key):
            known[key] = row.run.settings_shown.get(key)  # type: ignore[attr-defined]
        else:
            known |= {name: PART[name](row) for name in PARTS[key]}
    is_endless = lambda value: isinstance(value, float) and not math.isfinite(value)
    return {name: None if is_endless(value) else value for name, value in known.items()}


def _moment(value: datetime | None) -> str | None:
    return utc(value) if value else None


def _of_ceiling(name: str) -> Callable[[Row], Any]:
    return lambda row: row.ceiling[name] if row.ceiling else None


# Name in the file -> its value. A ceiling that is not identified has no value, only the bound that it is at least.
PART: Mapping[str, Callable[[Row], Any]] = {
    "id": lambda row: row.run.pk,
    "state": lambda row: row.run.state,
    "alarms": lambda row: [alarm.rule for alarm in row.alarms],
    "alarms_judged": lambda row: not row.unjudged,  # without it, no alarm says nothing
    "name": lambda row: row.run.name,
    "archived_at": lambda row: _moment(row.run.archived_at),
    "task": lambda row: row.run.task,
    "model": lambda row: row.run.model,
    "seed": lambda row: row.run.seed,
    "pass_rate": lambda row: row.latest,
    "pass_rate_stderr": lambda row: row.latest_stderr,
    "used_device_hours": lambda row: row.used_hours,
    "budget_device_hours": lambda row: row.run.budget_hours,
    "ceiling_identified": _of_ceiling("identified"),
    "ceiling": _of_ceiling("value"),
    "ceiling_lo": _of_ceiling("lo"),
    "ceiling_hi": _of_ceiling("hi"),
    "ceiling_level": lambda row: (summary_of(row.run).level or DEFAULT_LEVEL) if row.ceiling else None,
    "created_at": lambda row: _moment(row.run.created_at),
    "started_at": lambda row: _moment(row.run.started_at),
    "ended_at": lambda row: _moment(row.run.ended_at),
    "recipe": lambda row: row.run.revision.recipe.slug if row.run.revision else None,
    "revision": lambda row: row.run.revision.number if row.run.revision else None,
    "by": lambda row: row.run.created_by.username if row.run.created_by else None,
    "tags": lambda row: row.run.tags,
    "origin": lambda row: row.run.origin,
    "attempt": lambda row: row.run.attempt_number,
    "reason": lambda row: row.run.state_reason,
}
CEILING = ("ceiling_identified", "ceiling", "ceiling_lo", "ceiling_hi", "ceiling_level")
# Column of the list -> what it gives to a file. The small line of pass rates has no place in a table of values.
PARTS: Mapping[str, tuple[str, ...]] = {
    "state": ("state", "alarms", "alarms_judged"),
    "name": ("name", "recipe", "revision", "tags", "archived_at"),
    "task": ("task", "model"),
    "seed": ("seed",),
    "spark": (),
    "latest": ("pass_rate", "pass_rate_stderr"),
    "used": ("used_device_hours", "budget_device_hours"),
    "whisker": CEILING,
    "ceiling": CEILING,
    "age": ("created_at",),
    "recipe": ("recipe",),
    "revision": ("revision",),
    "by": ("by",),
    "tags": ("tags",),
    "origin": ("origin",),
    "budget": ("budget_device_hours",),
    "attempt": ("attempt",),
    "started": ("started_at",),
    "ended": ("ended_at",),
    "reason": ("reason",),
    "id": ("id",),
}


def _cell(value: Any) -> Any:
    return " ".join(value) if isinstance(value, list) else value
