"""What could come next where the caret is: fields, or values of a field as the project has them."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import F, Max, Q, QuerySet

from headroom.adapters.naming import RENAMED
from webapp.identity.accounts.models import Project, User
from webapp.record.alarm_rules import rules_by_name
from webapp.record.recipes.models import Recipe
from webapp.record.runs.filtering.fields import (
    ALARM_WORDS,
    BY_NAME,
    CONFIG_PREFIX,
    FIELDS,
    MAX_PATH,
    METRIC_PREFIX,
    ORIGINS,
    STATE_GROUPS,
    config_path,
    text_of,
)
from webapp.record.runs.filtering.parsing import PLAIN_VALUE, PLAIN_WORD, quoted
from webapp.record.runs.models import Run, Series

MOST = 12
LOOKED_AT = 5  # newest runs whose configurations say which settings there are
AFTER_OPERATOR = re.compile(
    r"(?P<field>[^\s\"'(),:=!<>~]+)\s*(?:!=|>=|<=|==|[:=<>~])\s*(?:[^\s\"(),]+,|\"[^\"]*\",)*(?P<part>\"?[^\s\"(),]*)$"
)
SIMPLE_KEY = re.compile(r"[^\s\"'(),:=!<>~.]+")  # of a configuration: what stands in a path without quotes
WORD = re.compile(r"[^\s\"'(),:=!<>~]*$")
Item = dict[str, str]


def completions(project: Project, user: User | None, text: str, at: int) -> dict[str, Any]:
    """{"from", "to", "items": [{"text", "says"}]}: each `text` may replace the characters from..to of the filter."""
    before = text[:at]
    if match := AFTER_OPERATOR.search(before):
        part = match["part"].lstrip('"')
        found = [{"text": _written(value), "says": ""} for value in _values(project, match["field"], part)]
        return {"from": match.start("part"), "to": at, "items": found[:MOST]}
    start = WORD.search(before)
    part = start[0] if start else ""
    return {"from": at - len(part), "to": at, "items": _fields(project, part)[:MOST]}


def _written(value: str) -> str:
    return value if PLAIN_VALUE.fullmatch(value) and "*" not in value else quoted(value)


def _fields(project: Project, part: str) -> list[Item]:
    if part.lower().startswith(CONFIG_PREFIX):
        paths = (path for path in settings_of_newest(project) if path.startswith(part))
        return [{"text": path, "says": "setting"} for path in sorted(paths)]
    if part.lower().startswith(METRIC_PREFIX):
        return metrics_of(project, part[len(METRIC_PREFIX) :])
    shown = [{"text": f.name.removesuffix("…"), "says": f.says} for f in FIELDS]
    return [item for item in shown if item["text"].startswith(part.lower())]


def metrics_of(project: Project, part: str) -> list[Item]:
    """Fields such as `metric.train/entropy` for metrics of the newest runs that begin so, here or at their trainer."""
    newest = Run.objects.filter(project=project).order_by("-created_at", "id").values("pk")[:LOOKED_AT]
    logged = {ours: name for name, ours in RENAMED.items() if part and name.startswith(part)}
    begins = Q(metric__startswith=part) | Q(metric__in=list(logged)) | Q(logged_as__startswith=part)
    found = Series.objects.filter(begins, run__in=newest).values_list("metric").order_by("metric")
    return [
        {
            "text": METRIC_PREFIX + (name if PLAIN_WORD.fullmatch(name) else quoted(name)),
            "says": "metric" if name.startswith(part) else f"logged as {logged.get(name) or original}",
        }
        for name, original in found.annotate(original=Max("logged_as"))[:MOST]
    ]


def _values(project: Project, name: str, part: str) -> list[str]:
    """Known values that hold what was typed, those that begin with it first."""
    if name.startswith(CONFIG_PREFIX):
        known: Iterable[str] = _values_of_setting(project, name)
    elif name.lower() in BY_NAME:
        known = _KNOWN.get(BY_NAME[name.lower()].name, lambda project: ())(project)
    else:
        known = ()
    typed = part.lower()
    fitting = [value for value in dict.fromkeys(known) if value and typed in value.lower() and value != part]
    return sorted(fitting, key=lambda value: not value.lower().startswith(typed))


def _column(name: str) -> Callable[[Project], Iterable[str]]:
    return lambda project: _distinct(Run.objects.filter(project=project), F(name))


def _distinct(runs: QuerySet[Run], expression: Any) -> list[str]:
    found = runs.annotate(shown=expression).order_by("shown").values_list("shown", flat=True).distinct()
    return [value for value in found[:200] if value is not None]


def _recipes(project: Project) -> Iterable[str]:
    return Recipe.objects.filter(project=project).order_by("slug").values_list("slug", flat=True)


def _members(project: Project) -> Iterable[str]:
    return ["me", *project.members.order_by("username").values_list("username", flat=True)]


def _tags(project: Project) -> Iterable[str]:
    rows = Run.objects.filter(project=project).exclude(tags=[]).values_list("tags", flat=True).distinct()
    return sorted({tag for tags in rows[:500] for tag in tags})


def settings_of_newest(project: Project) -> set[str]:
    """Paths such as `config.loss.type` that the configurations of the newest runs have."""
    newest = (
        Run.objects.filter(project=project).order_by("-created_at", "id").values_list("config", flat=True)
    )
    return {path for config in newest[:LOOKED_AT] for path in _paths(config, "config")}


def _paths(value: Any, path: str) -> Iterable[str]:
    if isinstance(value, dict) and path.count(".") < MAX_PATH:
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key if SIMPLE_KEY.fullmatch(key) else quoted(key)}")
    elif not isinstance(value, list | dict):
        yield path


def _values_of_setting(project: Project, name: str) -> Iterable[str]:
    path = config_path(name)
    if not all(path) or len(path) > MAX_PATH:
        return ()
    return _distinct(Run.objects.filter(project=project), text_of("config", path))


_TIMES = ("1h", "1d", "2d", "1w", "today", "yesterday")
_KNOWN: dict[str, Callable[[Project], Iterable[str]]] = {
    "state": lambda project: [*STATE_GROUPS],
    "origin": lambda project: [*ORIGINS],
    "recipe": _recipes,
    "task": _column("task"),
    "model": _column("model"),
    "tag": _tags,
    "by": _members,
    "alarm": lambda project: [*ALARM_WORDS, *rules_by_name()],
    "identified": lambda project: ["yes", "no"],
    "archived": lambda project: ["yes", "no"],
    "created": lambda project: _TIMES,
    "started": lambda project: _TIMES,
    "ended": lambda project: _TIMES,
    "age": lambda project: ("1h", "12h", "1d", "2d", "1w"),
    "budget": lambda project: ("none",),
    "ceiling": lambda project: ("none",),
    "pass_rate": lambda project: ("none",),
}
