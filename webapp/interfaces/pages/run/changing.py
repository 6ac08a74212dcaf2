"""What the form says that puts right what is said of runs (`webapp.record.runs.editing`)."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from webapp.base.errors import InvalidInput
from webapp.interfaces.pages.run.meaning import meaning_in

TEXTS = ("name", "notes", "task", "model")
OF_MANY = ("notes", "task", "model", "seed")


def changes_in(sent: Mapping[str, str]) -> dict[str, Any]:
    """What was sent of the fields. Raises InvalidInput (seed)."""
    changes: dict[str, Any] = {field: sent[field] for field in TEXTS if field in sent}
    if "tags" in sent:
        changes["tags"] = sent["tags"].replace(",", " ").split()
    if "seed" in sent:
        seed = sent["seed"].strip()
        if not (seed.isascii() and seed.isdecimal() and len(seed) < 20):
            raise InvalidInput("seed", "Seed: a whole number from 0.")
        changes["seed"] = int(seed)
    return changes


def many_changes_in(sent: Mapping[str, str]) -> dict[str, Any]:
    """The same of many runs: what is empty stays as it is in each. Raises InvalidInput (seed, n_prompts, devices)."""
    changes = changes_in(
        {field: value for field, value in sent.items() if value.strip() and field in OF_MANY}
    )
    said = {field: value for field, value in asdict(meaning_in(sent)).items() if value}
    return changes | ({"meaning": said} if said else {})
