"""What the run page is asked, from its query string. Each bad parameter is named with its reason."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict

from webapp.base.errors import InvalidInput
from webapp.base.formats import NoAmount, amount_in, number_in
from webapp.record.runs.selectors import is_pass_rate
from webapp.science.curves.answers import DEFAULT_GOAL, Goal
from webapp.science.curves.fitting import Question
from webapp.science.curves.run.chart_views import DEFAULT_VIEW, VIEWS
from webapp.science.curves.run.forecast import DEFAULT_DELTA
from webapp.science.curves.words import AXES, DEFAULT_AXIS, DEFAULT_METRIC

FIELDS = ("x", "metric", "view", "lo", "cutoff", "robust", "target", "of", "superseded")
OF = {"rate": "pass rate", "gain": "% of the gain"}


class BadQuestion(InvalidInput):
    """A query parameter that cannot be read; `field` is its name."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, f"{field}: {reason}", status=400)
        self.reason = reason


@dataclass(frozen=True)
class FigureRequest:
    """What the run's figure is asked: which fit, and how it is drawn."""

    question: Question
    view: str
    goal: Goal
    superseded: bool


def question_of(query: QueryDict) -> FigureRequest:
    """From the page's query string. Raises BadQuestion."""
    metric = query.get("metric", DEFAULT_METRIC)
    if not is_pass_rate(metric):
        raise BadQuestion("metric", "must be eval/pass_rate or eval/<part>/pass_rate")
    lo, cutoff = _positive(query, "lo"), _positive(query, "cutoff")
    if lo is not None and cutoff is not None and lo > cutoff:
        raise BadQuestion("cutoff", "ends before the window starts")
    x, robust = _one_of(query, "x", AXES, DEFAULT_AXIS), _one_of(query, "robust", ("0", "1"), "0")
    return FigureRequest(
        Question(x, cutoff, lo, metric=metric, robust=robust == "1"),
        _one_of(query, "view", VIEWS, DEFAULT_VIEW),
        goal_of(query),
        _one_of(query, "superseded", ("0", "1"), "0") == "1",
    )


def forgiving(query: QueryDict) -> tuple[FigureRequest, list[BadQuestion]]:
    """The same without the parameters that cannot be read, and what was wrong with each: the page still shows."""
    usable = query.copy()
    problems: list[BadQuestion] = []
    for _ in FIELDS:
        try:
            return question_of(usable), problems
        except BadQuestion as error:
            problems.append(error)
            usable.pop(str(error.field), None)
    return question_of(QueryDict()), problems


def goal_of(query: QueryDict) -> Goal:
    """The target: `target` a pass rate, or, with of=gain, a share of the gain in percent. Raises BadQuestion."""
    of = _one_of(query, "of", OF, "rate")
    text = query.get("target", "").strip()
    if not text:
        return DEFAULT_GOAL
    value = _number("target", text.removesuffix("%") if of == "gain" else text)
    if of == "gain":
        if 0 < value < 1 and not text.endswith("%"):  # of the gain's own scale, most likely
            raise BadQuestion(
                "target", f"write {100 * value:g} for {100 * value:g} %, or {text}% if that is meant"
            )
        value /= 100
        if not 0 < value < 1:
            raise BadQuestion("target", "a share of the gain is between 0 and 100 %, both excluded")
    elif not 0 < value < 1:
        raise BadQuestion("target", "a pass rate is between 0 and 1, both excluded")
    return Goal(value, of)


def delta_of(query: QueryDict) -> float:
    """The least gain that is worth going on for. Raises BadQuestion."""
    text = query.get("delta", "").strip()
    if not text:
        return DEFAULT_DELTA
    value = _number("delta", text)
    if not 0 < value < 1:
        raise BadQuestion("delta", "a gain of pass rate is between 0 and 1, both excluded")
    return value


def _one_of(query: QueryDict, field: str, known: Any, default: str) -> str:
    value = query.get(field, "") or default
    if value not in known:
        raise BadQuestion(field, f"one of {', '.join(known)}")
    return value


def _positive(query: QueryDict, field: str) -> float | None:
    text = query.get(field, "").strip()
    return _number(field, text, amount_in) if text else None


def _number(field: str, text: str, read: Callable[[str], float] = number_in) -> float:
    try:
        return read(text)
    except NoAmount as error:
        raise BadQuestion(field, str(error)) from None
