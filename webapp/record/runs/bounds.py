"""What the numbers and texts of a run may be: the same for a launch, a longer budget and a run tracked elsewhere.

Also what a run and its recipe are called.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from webapp.base.errors import InvalidInput
from webapp.record.runs.models import Run

MAX_SEED = 2**31 - 1
MAX_BUDGET_HOURS = 1e6  # 114 device-years: more is a slip of the pen
MAX_NAME = 120
MAX_RETRIES = 100
MAX_TASK, MAX_MODEL = 80, 200
MAX_NOTES = 20_000
MAX_TAGS = 20  # of a run
MAX_CONFIG_CHARACTERS = 1_000_000  # of a configuration as JSON, so that a page can show it
MAX_MODELS_CHARACTERS = 8_000_000  # of all models and artifacts that a run's client has described, as JSON
TAG = re.compile(r"[a-z0-9][a-z0-9._:/-]{0,39}")
SPENT_SHARE = 0.999  # of the budget: nothing worth another attempt is left


def check_budget(budget_hours: float) -> None:
    """Raises InvalidInput (budget_hours)."""
    if isinstance(budget_hours, bool) or not isinstance(budget_hours, int | float):
        raise InvalidInput("budget_hours", "budget_hours must be a number of device-hours.")
    if not math.isfinite(budget_hours) or not 0 < budget_hours <= MAX_BUDGET_HOURS:
        raise InvalidInput(
            "budget_hours", f"budget_hours must be above 0 and at most {MAX_BUDGET_HOURS:,.0f} device-hours."
        )


def check_retries(retries: int | None) -> None:
    """None is as the installation says. Raises InvalidInput (retries)."""
    if retries is not None and (isinstance(retries, bool) or not 0 <= retries <= MAX_RETRIES):
        raise InvalidInput("retries", f"retries must be a whole number from 0 to {MAX_RETRIES}, or empty.")


def check_seed(seed: int) -> None:
    """Raises InvalidInput (seed)."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise InvalidInput("seed", f"seed must be a whole number from 0 to {MAX_SEED}.")


def clean_name(name: str) -> str:
    """The name without blanks around it. Raises InvalidInput (name)."""
    return clean_text("name", name, MAX_NAME)


def clean_text(field: str, value: str, limit: int) -> str:
    """The text without blanks around it. Raises InvalidInput for `field` where it is too long or cannot be printed."""
    text = value.strip()
    if len(text) > limit or not text.isprintable():
        raise InvalidInput(field, f"{field} must have at most {limit} characters, all of them printable.")
    return text


def clean_tag(tag: str) -> str:
    """The tag as it is stored. Raises InvalidInput (tag)."""
    text = tag.strip().lower()
    if not TAG.fullmatch(text):
        raise InvalidInput(
            "tag",
            "tag: a tag is one word of at most 40 letters, digits and . _ : / -, such as paper or sweep-3.",
        )
    return text


def clean_tags(tags: Iterable[str]) -> list[str]:
    """All tags of a run as they are stored: sorted, each once. Raises InvalidInput (tags)."""
    try:
        found = sorted({clean_tag(tag) for tag in tags})
    except InvalidInput as error:
        raise InvalidInput("tags", error.message.replace("tag:", "tags:", 1)) from None
    if len(found) > MAX_TAGS:
        raise InvalidInput("tags", f"tags: a run has at most {MAX_TAGS}.")
    return found


def clean_notes(notes: str) -> str:
    """Plain text of any number of lines. Raises InvalidInput (notes)."""
    text = notes.replace("\r\n", "\n").strip()
    if len(text) > MAX_NOTES or not text.replace("\n", "").replace("\t", "").isprintable():
        raise InvalidInput(
            "notes", f"notes must have at most {MAX_NOTES:,} characters, all of them printable or line ends."
        )
    return text


def check_config(config: Mapping[str, Any], field: str = "config") -> None:
    """Raises InvalidInput for `field` where it is more than a page can show."""
    if len(json.dumps(config)) > MAX_CONFIG_CHARACTERS:
        raise InvalidInput(field, f"{field} may have at most {MAX_CONFIG_CHARACTERS:,} characters of JSON.")


def check_models(said: Mapping[str, Any]) -> None:
    """Of all models and artifacts of a run. Raises InvalidInput (models)."""
    if len(json.dumps(said)) > MAX_MODELS_CHARACTERS:
        raise InvalidInput(
            "models",
            f"models: what is said of a run's models and artifacts may have at most {MAX_MODELS_CHARACTERS:,} "
            "characters of JSON together. Log some of them in another run.",
        )


def label_of(run: Run) -> str:
    """Name and seed, as legends show a run."""
    return f"{run.name}, seed {run.seed}" if f"seed {run.seed}" not in run.name else run.name


def recipe_key(run: Run) -> tuple:
    """What runs of one recipe share; tracked runs without a recipe go by their name."""
    return run.task, run.model, run.revision_id or run.name


def recipe_name(run: Run) -> str:
    """ "ScaleRL rev 2", or the name of a run without a recipe."""
    return str(run.revision) if run.revision else run.name
