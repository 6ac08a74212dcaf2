"""The fields of the filter language: what each means, of which kind it is, and an example that helps.

Values of a filter as numbers, times and durations. Pure; what cannot be read is a ValueError with the reason.

Expressions over a value inside stored JSON: its text, its number, and comparisons that are never unknown.

A comparison with something that is not there is false (not NULL), so that NOT is its exact complement.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from django.db.models import BooleanField, Case, DecimalField, Expression, F, Func, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Coalesce
from django.db.models.lookups import Exact, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual

from webapp.record.runs.models import Run, State
from webapp.record.runs.states import ACTIVE, ENDED, PHASES

EQUAL, ORDER, CONTAINS = (":", "=", "!="), ("<", "<=", ">", ">="), ("~",)
_RECIPE = ("revision__recipe__slug", "revision__recipe__name")
QUOTED = r'"((?:[^"\\]|\\.)+)"'
MAX_PATH = 8  # keys within keys
STATE_GROUPS: dict[str, frozenset[str]] = {str(state): frozenset({str(state)}) for state in State} | {
    "unfinished": frozenset(ACTIVE),
    "ended": frozenset(ENDED),
    **{phase: frozenset(map(str, states)) for phase, states in PHASES.items()},
}
ORIGINS = {str(origin): frozenset({str(origin)}) for origin in Run.Origin}
FLAGS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
ALARM_WORDS = ("active", "any", "none", "critical", "warning")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,3})?(?P<percent>\s?%)?", re.IGNORECASE)
WHOLE = re.compile(r"[-+]?\d{1,18}")
DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]+)(?: ago)?", re.IGNORECASE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
UNITS = {
    "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "mo": 30 * 86400, "y": 365 * 86400,
}  # fmt: skip
SYNONYMS = {
    "sec": "s", "second": "s", "minute": "min", "hour": "h", "day": "d", "week": "w", "month": "mo", "year": "y",
}  # fmt: skip
DAY = timedelta(days=1)


class FieldType(StrEnum):
    """How the values of a field are read and compared."""

    TEXT = "text"
    CHOICE = "choice"
    NUMBER = "number"
    WHOLE = "whole number"
    TIME = "time"
    AGE = "age"
    FLAG = "yes or no"
    TAG = "tag"
    ALARM = "alarm"
    CONFIG = "configuration"
    METRIC = "metric"


OPERATORS = {
    FieldType.TEXT: EQUAL + CONTAINS,
    FieldType.CHOICE: EQUAL,
    FieldType.NUMBER: EQUAL + ORDER,
    FieldType.WHOLE: EQUAL + ORDER,
    FieldType.TIME: EQUAL + ORDER,
    FieldType.AGE: ORDER,
    FieldType.FLAG: EQUAL,
    FieldType.TAG: EQUAL + CONTAINS,
    FieldType.ALARM: EQUAL,
    FieldType.CONFIG: EQUAL + ORDER + CONTAINS,
    FieldType.METRIC: EQUAL + ORDER,
}


@dataclass(frozen=True)
class Field:
    """A field by name. `columns` are looked up from Run; of several, any may fit."""

    name: str
    kind: FieldType
    says: str
    example: str
    columns: tuple[str, ...] = ()
    nullable: bool = False
    aliases: tuple[str, ...] = ()


FIELDS = (
    Field(
        "state",
        FieldType.CHOICE,
        "State of the run, or unfinished, ended, waiting.",
        "state:running,failed",
        ("state",),
    ),
    Field("recipe", FieldType.TEXT, "Name or slug of the recipe.", "recipe:scalerl", _RECIPE, nullable=True),
    Field(
        "revision",
        FieldType.WHOLE,
        "Number of the recipe's revision.",
        "revision >= 2",
        ("revision__number",),
        nullable=True,
    ),
    Field("task", FieldType.TEXT, "What it trains on.", "task:arithmetic", ("task",)),
    Field("model", FieldType.TEXT, "What it starts from; * stands for anything.", "model:qwen*", ("model",)),
    Field("seed", FieldType.WHOLE, "Random seed.", "seed:0,1,2", ("seed",)),
    Field("name", FieldType.TEXT, "Name of the run.", 'name ~ "first try"', ("name",)),
    Field("notes", FieldType.TEXT, "Notes that people wrote.", 'notes ~ "slow node"', ("notes",)),
    Field(
        "by",
        FieldType.TEXT,
        "Who launched it; me is you.",
        "by:me",
        ("created_by__username",),
        nullable=True,
        aliases=("user",),
    ),
    Field(
        "alarm",
        FieldType.ALARM,
        "active, any (also past), none, critical, warning, or a rule's name.",
        "alarm:active",
    ),
    Field("tag", FieldType.TAG, "A tag of the run.", "tag:paper"),
    Field(
        "id",
        FieldType.TEXT,
        "Id of the run, or the one its client gave it (MLflow, trackio); with : its beginning is enough.",
        "id:7k2m",
        ("id", "client_run__key"),
    ),
    Field(
        "experiment",
        FieldType.TEXT,
        "MLflow's experiment, by name or number, or trackio's project.",
        "experiment:grpo",
        ("client_run__group__name", "client_run__group__id"),
        nullable=True,
    ),
    Field(
        "origin", FieldType.CHOICE, "launched here, or tracked from elsewhere.", "origin:tracked", ("origin",)
    ),
    Field(
        "created",
        FieldType.TIME,
        "When it was launched. A time (UTC), or how long ago: > 2d is within the last two days.",
        "created > 2d",
        ("created_at",),
    ),
    Field("age", FieldType.AGE, "How long ago it was launched.", "age > 12h", ("created_at",)),
    Field(
        "started", FieldType.TIME, "When training began.", "started > today", ("started_at",), nullable=True
    ),
    Field("ended", FieldType.TIME, "When it ended.", "ended < 2026-11-01", ("ended_at",), nullable=True),
    Field("attempt", FieldType.WHOLE, "Number of the current attempt.", "attempt > 1", ("attempt_number",)),
    Field(
        "budget",
        FieldType.NUMBER,
        "Budget in device-hours.",
        "budget > 100",
        ("budget_hours",),
        nullable=True,
    ),
    Field(
        "used",
        FieldType.NUMBER,
        "Device-hours spent so far.",
        "used < 0.5",
        ("summary__used_hours",),
        nullable=True,
    ),
    Field(
        "pass_rate",
        FieldType.NUMBER,
        "The newest held-out pass rate.",
        "pass_rate > 0.5",
        ("summary__pass_rate",),
        nullable=True,
        aliases=("latest",),
    ),
    Field(
        "ceiling",
        FieldType.NUMBER,
        "Forecast ceiling, of runs where it is known.",
        "ceiling >= 0.6",
        ("summary__ceiling",),
        nullable=True,
    ),
    Field(
        "ceiling.lo",
        FieldType.NUMBER,
        "Lower end of the interval of the forecast ceiling, known or not, before it is recalibrated.",
        "ceiling.lo > 0.55",
        ("summary__ceiling_lo",),
        nullable=True,
    ),
    Field(
        "ceiling.hi",
        FieldType.NUMBER,
        "Upper end of the same interval.",
        "ceiling.hi < 0.7",
        ("summary__ceiling_hi",),
        nullable=True,
    ),
    Field(
        "identified",
        FieldType.FLAG,
        "Whether the forecast ceiling is known.",
        "identified:yes",
    ),
    Field(
        "archived",
        FieldType.FLAG,
        "Archived runs are hidden unless a filter names this field.",
        "archived:yes",
    ),
    Field(
        "deleted",
        FieldType.FLAG,
        "Deleted runs, which can be restored for a day, are hidden unless a filter names this field.",
        "deleted:yes",
    ),
    Field(
        "config.…",
        FieldType.CONFIG,
        "Any setting of the stored configuration, by its path.",
        "config.loss.type = cispo",
    ),
    Field(
        "metric.…",
        FieldType.METRIC,
        "The newest value of any metric, by its name; one with blanks or signs in quotes.",
        "metric.train/entropy < 0.2",
    ),
)
BY_NAME = {name: field for field in FIELDS for name in (field.name, *field.aliases)}
CONFIG = BY_NAME.pop("config.…")
METRIC = BY_NAME.pop("metric.…")
CONFIG_PREFIX, METRIC_PREFIX = "config.", "metric."
PREFIXES = (CONFIG_PREFIX, METRIC_PREFIX)


def field_names() -> list[str]:
    """Every name that a filter may use, the general `config.` and `metric.` last."""
    return [*BY_NAME, *PREFIXES]


def config_path(name: str) -> list[str]:
    """`config.loss.type` as its keys; a key with a dot stands in quotes: `config."actor.lr"`."""
    path = name.removeprefix(CONFIG_PREFIX)
    found = re.findall(rf"(?:^|\.)(?:{QUOTED}(?=\.|$)|([^.]*))", path)
    return [_unescaped(quoted) or plain for quoted, plain in found]


def metric_name(name: str) -> str:
    """The metric of `metric.train/entropy`, or of `metric."two words"`."""
    text = name.removeprefix(METRIC_PREFIX)
    match = re.fullmatch(QUOTED, text)
    return _unescaped(match[1]) if match else text


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def number(text: str) -> float:
    """A finite number; `90%` is 0.9."""
    match = NUMBER.fullmatch(text.strip())
    value = float(text.strip().rstrip("%").strip()) if match else float("inf")
    if match is None or value in (float("inf"), float("-inf")):
        raise ValueError("is not a number")
    return value / 100 if match["percent"] else value


def whole(text: str) -> int:
    """A whole number."""
    if not WHOLE.fullmatch(text.strip()):
        raise ValueError("is not a whole number")
    return int(text)


def duration(text: str) -> timedelta:
    """`90s`, `30min`, `12h`, `2d`, `1w`, `6mo`, `1y`."""
    match = DURATION.fullmatch(text.strip())
    unit = match[2].lower() if match else ""
    unit = SYNONYMS.get(unit.removesuffix("s") if len(unit) > 2 else unit, unit)
    if match is None or unit not in UNITS:
        raise ValueError("is not a duration such as 30min, 12h, 2d or 1w")
    try:
        return timedelta(seconds=float(match[1]) * UNITS[unit])
    except OverflowError:
        raise ValueError("is too long") from None


def moment(text: str, now: datetime) -> tuple[datetime, datetime]:
    """A day, a time (UTC unless it says its offset), `today`, `yesterday`, or how long ago (`2d`): from when to when,
    which are one for an instant."""
    text = text.strip()
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if text.lower() in ("today", "yesterday"):
        start = today if text.lower() == "today" else today - DAY
        return start, start + DAY
    try:
        if DATE.fullmatch(text):
            start = datetime.fromisoformat(text).replace(tzinfo=UTC)
            return start, start + DAY
        if re.match(r"\d{4}-", text):
            at = datetime.fromisoformat(text)
            at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
        else:
            at = now - duration(text)
        return at, at
    except (OverflowError, ValueError):
        raise ValueError("is not a time such as 2d (ago), 2026-11-21, 2026-11-21T10:30 or today") from None


COMPARE = {
    "exact": Exact,
    "lt": LessThan,
    "lte": LessThanOrEqual,
    "gt": GreaterThan,
    "gte": GreaterThanOrEqual,
}


class _AsNumeric(Func):
    """A JSON number as PostgreSQL's numeric, which holds any number that JSON can."""

    template = "(%(expressions)s)::numeric"
    output_field = DecimalField()


def json_at(column: str, path: Sequence[str]) -> Any:
    """The JSON value at a path; its order is that of PostgreSQL's jsonb (numbers by size)."""
    value: Any = F(column)
    for key in path:
        value = KeyTransform(key, value)
    return value


def text_of(column: str, path: Sequence[str]) -> Any:
    """The value as text: a string without its quotes, `true`, `0.0003`, or JSON of an object."""
    if not path:
        return Cast(F(column), TextField())
    return KeyTextTransform(path[-1], json_at(column, path[:-1]))


def number_at(column: str, path: Sequence[str]) -> Expression:
    """The value where it is a number, else NULL."""
    value = json_at(column, path)
    kind = Func(value, function="jsonb_typeof", output_field=TextField())
    return Case(When(Exact(kind, Value("number")), then=_AsNumeric(value)), output_field=DecimalField())


def fits(text: Any, lookup: str, value: str) -> Expression:
    """Whether a text fits; `lookup` is one of Django's for text."""
    compare = TextField().get_lookup(lookup)
    assert compare is not None
    expression = Func(text, template="(%(expressions)s)", output_field=TextField())
    return _never_unknown(compare(expression, value))


def number_fits(column: str, path: Sequence[str], lookup: str, number: float) -> Expression:
    """Whether the value is a number that compares so."""
    rhs = Value(Decimal(repr(number)), output_field=DecimalField())
    return _never_unknown(COMPARE[lookup](number_at(column, path), rhs))


def missing(column: str, path: Sequence[str]) -> Expression:
    """Whether there is no value, or null."""
    kind = Func(json_at(column, path), function="jsonb_typeof", output_field=TextField())
    null = Value("null", output_field=TextField())
    return Exact(Coalesce(kind, null, output_field=TextField()), null)


def _never_unknown(lookup: Any) -> Expression:
    return Coalesce(lookup, Value(False), output_field=BooleanField())
