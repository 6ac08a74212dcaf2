"""The fields of the filter language: what each means, of which kind it is, and an example that helps."""

import re
from dataclasses import dataclass
from enum import StrEnum

from webapp.record.runs.models import Run, State
from webapp.record.runs.states import ACTIVE, ENDED, PHASES

EQUAL, ORDER, CONTAINS = (":", "=", "!="), ("<", "<=", ">", ">="), ("~",)


class Kind(StrEnum):
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
    Kind.TEXT: EQUAL + CONTAINS,
    Kind.CHOICE: EQUAL,
    Kind.NUMBER: EQUAL + ORDER,
    Kind.WHOLE: EQUAL + ORDER,
    Kind.TIME: EQUAL + ORDER,
    Kind.AGE: ORDER,
    Kind.FLAG: EQUAL,
    Kind.TAG: EQUAL + CONTAINS,
    Kind.ALARM: EQUAL,
    Kind.CONFIG: EQUAL + ORDER + CONTAINS,
    Kind.METRIC: EQUAL + ORDER,
}


@dataclass(frozen=True)
class Field:
    """A field by name. `columns` are looked up from Run; of several, any may fit."""

    name: str
    kind: Kind
    says: str
    example: str
    columns: tuple[str, ...] = ()
    nullable: bool = False
    aliases: tuple[str, ...] = ()


_RECIPE = ("revision__recipe__slug", "revision__recipe__name")
FIELDS = (
    Field(
        "state",
        Kind.CHOICE,
        "State of the run, or unfinished, ended, waiting.",
        "state:running,failed",
        ("state",),
    ),
    Field("recipe", Kind.TEXT, "Name or slug of the recipe.", "recipe:scalerl", _RECIPE, nullable=True),
    Field(
        "revision",
        Kind.WHOLE,
        "Number of the recipe's revision.",
        "revision >= 2",
        ("revision__number",),
        nullable=True,
    ),
    Field("task", Kind.TEXT, "What it trains on.", "task:arithmetic", ("task",)),
    Field("model", Kind.TEXT, "What it starts from; * stands for anything.", "model:qwen*", ("model",)),
    Field("seed", Kind.WHOLE, "Random seed.", "seed:0,1,2", ("seed",)),
    Field("name", Kind.TEXT, "Name of the run.", 'name ~ "first try"', ("name",)),
    Field("notes", Kind.TEXT, "Notes that people wrote.", 'notes ~ "slow node"', ("notes",)),
    Field(
        "by",
        Kind.TEXT,
        "Who launched it; me is you.",
        "by:me",
        ("created_by__username",),
        nullable=True,
        aliases=("user",),
    ),
    Field(
        "alarm",
        Kind.ALARM,
        "active, any (also past), none, critical, warning, or a rule's name.",
        "alarm:active",
    ),
    Field("tag", Kind.TAG, "A tag of the run.", "tag:paper"),
    Field(
        "id",
        Kind.TEXT,
        "Id of the run, or the one its client gave it (MLflow, trackio); with : its beginning is enough.",
        "id:7k2m",
        ("id", "client_run__key"),
    ),
    Field("origin", Kind.CHOICE, "launched here, or tracked from elsewhere.", "origin:tracked", ("origin",)),
    Field(
        "created",
        Kind.TIME,
        "When it was launched. A time (UTC), or how long ago: > 2d is within the last two days.",
        "created > 2d",
        ("created_at",),
    ),
    Field("age", Kind.AGE, "How long ago it was launched.", "age > 12h", ("created_at",)),
    Field("started", Kind.TIME, "When training began.", "started > today", ("started_at",), nullable=True),
    Field("ended", Kind.TIME, "When it ended.", "ended < 2026-11-01", ("ended_at",), nullable=True),
    Field("attempt", Kind.WHOLE, "Number of the current attempt.", "attempt > 1", ("attempt_number",)),
    Field("budget", Kind.NUMBER, "Budget in device-hours.", "budget > 100", ("budget_hours",), nullable=True),
    Field(
        "used",
        Kind.NUMBER,
        "Device-hours spent so far.",
        "used < 0.5",
        ("summary__used_hours",),
        nullable=True,
    ),
    Field(
        "pass_rate",
        Kind.NUMBER,
        "The newest held-out pass rate.",
        "pass_rate > 0.5",
        ("summary__pass_rate",),
        nullable=True,
        aliases=("latest",),
    ),
    Field(
        "ceiling",
        Kind.NUMBER,
        "Forecast ceiling, of runs where it is known.",
        "ceiling >= 0.6",
        ("summary__ceiling",),
        nullable=True,
    ),
    Field(
        "ceiling.lo",
        Kind.NUMBER,
        "Lower end of the interval of the forecast ceiling, known or not, before it is recalibrated.",
        "ceiling.lo > 0.55",
        ("summary__ceiling_lo",),
        nullable=True,
    ),
    Field(
        "ceiling.hi",
        Kind.NUMBER,
        "Upper end of the same interval.",
        "ceiling.hi < 0.7",
        ("summary__ceiling_hi",),
        nullable=True,
    ),
    Field(
        "identified",
        Kind.FLAG,
        "Whether the forecast ceiling is known.",
        "identified:yes",
    ),
    Field(
        "archived",
        Kind.FLAG,
        "Archived runs are hidden unless a filter names this field.",
        "archived:yes",
    ),
    Field(
        "deleted",
        Kind.FLAG,
        "Deleted runs, which can be restored for a day, are hidden unless a filter names this field.",
        "deleted:yes",
    ),
    Field(
        "config.…",
        Kind.CONFIG,
        "Any setting of the stored configuration, by its path.",
        "config.loss.type = cispo",
    ),
    Field(
        "metric.…",
        Kind.METRIC,
        "The newest value of any metric, by its name; one with blanks or signs in quotes.",
        "metric.train/entropy < 0.2",
    ),
)
BY_NAME = {name: field for field in FIELDS for name in (field.name, *field.aliases)}
CONFIG = BY_NAME.pop("config.…")
METRIC = BY_NAME.pop("metric.…")
CONFIG_PREFIX, METRIC_PREFIX = "config.", "metric."
PREFIXES = (CONFIG_PREFIX, METRIC_PREFIX)
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
