"""In which order runs are listed. Every order is total: the newest first, then the id, tells equal runs apart."""

from typing import Any

from django.db.models import F
from django.db.models.functions import Lower

from webapp.record.runs.filtering.fields import CONFIG_PREFIX, MAX_PATH, config_path, json_at

DEFAULT_SORT = "-created"
# Name -> what is compared; where it is missing, the run comes last in either direction.
KEYS: dict[str, tuple[Any, ...]] = {
    "created": (F("created_at"),),
    "started": (F("started_at"),),
    "ended": (F("ended_at"),),
    "state": (F("state"),),
    "name": (Lower("name"),),
    "id": (F("id"),),
    "recipe": (Lower("revision__recipe__name"), F("revision__number")),
    "task": (Lower("task"), Lower("model")),
    "model": (Lower("model"),),
    "seed": (F("seed"),),
    "by": (Lower("created_by__username"),),
    "origin": (F("origin"),),
    "attempt": (F("attempt_number"),),
    "budget": (F("budget_hours"),),
    "used": (F("summary__used_hours"),),
    "pass_rate": (F("summary__pass_rate"),),
    "ceiling": (F("summary__ceiling"), F("summary__ceiling_lo")),  # those not known by their lower end
    "ceiling.lo": (F("summary__ceiling_lo"),),
}
WORDS = frozenset({"state", "name", "id", "recipe", "task", "model", "by", "origin"})  # from a to z at first


def known_sort(sort: str) -> str:
    """The same order, or the default where there is none of this name."""
    name = sort.removeprefix("-")
    path = config_path(name)
    is_setting = name.startswith(CONFIG_PREFIX) and all(path) and len(path) <= MAX_PATH
    return sort if name in KEYS or is_setting else DEFAULT_SORT


def first_direction(name: str) -> str:
    """What a first click on a column asks for: words from a to z, numbers and times from the greatest."""
    return name if name in WORDS else f"-{name}"


def ordering(sort: str) -> list[Any]:
    """For `order_by`; a leading `-` turns it around."""
    sort = known_sort(sort)
    name = sort.removeprefix("-")
    keys = KEYS.get(name) or (json_at("config", config_path(name)),)
    down = sort.startswith("-")
    ordered = [key.desc(nulls_last=True) if down else key.asc(nulls_last=True) for key in keys]
    if name == "created":  # no run lacks it, and so an index serves the order
        ordered = ["-created_at" if down else "created_at"]
        return [*ordered, "id"]
    return [*ordered, "-created_at", "id"]
