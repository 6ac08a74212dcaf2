"""What a rule can watch for: one model a kind, checked before it is stored. Words of a condition are here, too.

When the actual left the band: evaluations against forecasts that had not seen them. Pure functions on arrays.

A run is looked at again with every evaluation, so a fixed 90 % band would be left by chance in every long run. So
the k-th window of evaluations that is judged may be left by chance with probability at most ALPHA * 6 / (pi k)^2, and
these add up to ALPHA however long a run gets (a union bound: it needs no independence between windows, which share
evaluations and fits). All evaluations of a window must lie on the same side; the chance of that is at most that of
its last one alone, which is what is held to the bound, so errors that the window shares do not break it either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from scipy.special import stdtrit

from scaling.course import Course, normal_quantile
from webapp.base.errors import InvalidInput
from webapp.record.alarm_rules import rules_by_name
from webapp.record.runs.selectors import is_pass_rate
from webapp.reporting.alarms.judge import episodes_of
from webapp.science.curves.models import Fit

STATES = ("started", "succeeded", "failed", "cancelled", "lost")
COMPARISONS = {">": "above", ">=": "at or above", "<": "below", "<=": "at or below"}
EVENTS = {
    "review_asked": "a prediction awaits your review",
    "prediction_reviewed": "a prediction of yours was reviewed",
    "prediction_comment": "somebody commented where you take part",
    "prediction_scored": "a prediction of yours was scored",
    "mention": "somebody mentioned you",
}
InARow = Annotated[int, Field(ge=1, le=100)]


class _Condition(BaseModel):
    """`words` says it in words that follow "when"."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=False)


class StateCondition(_Condition):
    """The run, or its next attempt, gets into one of these states."""

    states: list[Literal["started", "succeeded", "failed", "cancelled", "lost"]] = Field(min_length=1)

    @field_validator("states")
    @classmethod
    def _in_order(cls, states: list[str]) -> list[str]:
        return [state for state in STATES if state in states]

    def words(self) -> str:
        return f"a run has {_either(['been ' + s if s in ('cancelled', 'lost') else s for s in self.states])}"


class MetricCondition(_Condition):
    """`in_a_row` values of the metric, one after the other, compare so with the threshold."""

    metric: str = Field(min_length=1, max_length=250)
    comparison: Literal[">", ">=", "<", "<="]
    threshold: float
    in_a_row: InARow = 3

    @field_validator("metric")
    @classmethod
    def _name(cls, metric: str) -> str:
        text = metric.strip()
        if not text or not text.isprintable():
            raise ValueError("the name of a metric is needed, such as train/entropy")
        return text

    @model_validator(mode="after")
    def _possible(self) -> "MetricCondition":
        if is_pass_rate(self.metric) and not 0 <= self.threshold <= 1:
            raise InvalidInput("threshold", "threshold: a pass rate lies between 0 and 1.")
        return self

    def words(self) -> str:
        times = "" if self.in_a_row == 1 else f", {self.in_a_row} times in a row"
        return f"{self.metric} is {COMPARISONS[self.comparison]} {self.threshold:g}{times}"


class AlarmCondition(_Condition):
    """An alarm of at least this level is raised, of one of the alarms' rules or (empty) of any."""

    level: Literal["warning", "critical"] = "warning"
    rule: str = ""

    @field_validator("rule")
    @classmethod
    def _known(cls, rule: str) -> str:
        if rule and rule not in rules_by_name():
            raise ValueError("there is no alarm of this name")
        return rule

    def words(self) -> str:
        what = f"the alarm {self.rule}" if self.rule else "an alarm"
        return f"{what} is raised{', critical ones only' if self.level == 'critical' else ''}"


class FitCondition(_Condition):
    """The forecast of the whole curve says something, in `in_a_row` fits (of left_band: evaluations) in a row; or there
    is a new one (stored: each of them, whatever it says)."""

    event: Literal["identified", "ceiling_below", "ceiling_above", "left_band", "stored"]
    value: Annotated[float, Field(gt=0, le=1)] | None = None
    certain: bool = False  # the whole interval is beyond the value, not only the ceiling
    in_a_row: Annotated[int, Field(ge=1, le=10)] = 2

    @model_validator(mode="after")
    def _complete(self) -> "FitCondition":
        if self.event.startswith("ceiling_") and self.value is None:
            raise InvalidInput("value", "value: say which ceiling, as a rate between 0 and 1.")
        return self

    def words(self) -> str:
        fits = "" if self.in_a_row == 1 else f" in {self.in_a_row} fits in a row"
        if self.event == "stored":
            return "there is a new fit, whatever it says"
        if self.event == "identified":
            return f"the forecast ceiling is known{fits}"
        if self.event == "left_band":
            return f"{self.in_a_row} evaluations in a row lie outside the band of a forecast that had not seen them"
        side = "below" if self.event == "ceiling_below" else "above"
        sure = ", with its whole interval" if self.certain else ""
        return f"the forecast ceiling is {side} {self.value:g}{sure}{fits}"


class BudgetCondition(_Condition):
    """This share of the run's budget is spent."""

    percent: float = Field(gt=0, le=100)

    def words(self) -> str:
        return f"{self.percent:g} % of the budget is spent"


class OutcomeCondition(_Condition):
    """The run scores a prediction, of whomever, and what was claimed came inside the interval, outside, or either."""

    scored: Literal["any", "inside", "outside"] = "any"

    def words(self) -> str:
        where = "" if self.scored == "any" else f" and what came lies {self.scored} its interval"
        return f"a run scores a prediction{where}"


class PredictionCondition(_Condition):
    """Something that predictions tell a person."""

    event: Literal[
        "review_asked", "prediction_reviewed", "prediction_scored", "prediction_comment", "mention"
    ]

    def words(self) -> str:
        return EVENTS[self.event]


KINDS: dict[str, type[_Condition]] = {
    "state": StateCondition,
    "metric": MetricCondition,
    "alarm": AlarmCondition,
    "fit": FitCondition,
    "budget": BudgetCondition,
    "outcome": OutcomeCondition,
    "prediction": PredictionCondition,
}
Condition = (
    StateCondition
    | MetricCondition
    | AlarmCondition
    | FitCondition
    | BudgetCondition
    | OutcomeCondition
    | PredictionCondition
)


def read(on: str, given: Any) -> Condition:
    """The condition of a rule of this kind. Raises InvalidInput whose field is the condition's."""
    if on not in KINDS:
        raise InvalidInput("on", f"on must be one of {', '.join(KINDS)}.")
    try:
        return KINDS[on].model_validate(given)  # type: ignore[return-value]
    except ValidationError as error:
        raise InvalidInput.from_problems(error.errors()) from None


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


ALPHA = 0.05  # of runs that follow their forecasts, at most this share ever fires
PARAMETERS = 4


@dataclass(frozen=True)
class Known:
    """A forecast that had seen all up to `known_to`, and the noise of one evaluation (standard deviation, `dof` degrees
    of freedom)."""

    forecast: Course
    known_to: float
    noise: float
    dof: int


@dataclass(frozen=True)
class Departure:
    """Indices of the first, the counted (`in_a_row`-th) and the last evaluation outside; what had been expected at the
    counted one, by the fit of the points up to `known_to`."""

    first: int
    counted: int
    last: int
    below: bool
    expected: float
    known_to: float


def known_from(row: Fit, forecast: Course | None) -> Known | None:
    """A fit's forecast for comparing; None where there is none, or too few points to know the noise around the fit."""
    dof = row.n - PARAMETERS
    if forecast is None or forecast.ceiling is None or row.sse is None or row.fitted_hi is None or dof < 1:
        return None
    return Known(forecast, row.fitted_hi, float(np.sqrt(row.sse / dof)), dof)


def departures(
    x: np.ndarray, y: np.ndarray, stderr: np.ndarray, known: Sequence[Known], in_a_row: int
) -> list[Departure]:
    """Stretches of at least `in_a_row` evaluations outside, on one side; x ascending, y, stderr (0: unknown) [n].

    Each window of `in_a_row` evaluations is compared with the newest forecast from points that all lie before it.
    """
    sides = np.zeros(len(x), int)  # -1 or 1 where the window that ends here is outside
    expected, known_to, judged = np.full(len(x), np.nan), np.full(len(x), np.nan), 0
    for end in range(in_a_row - 1, len(x)):
        window = slice(end - in_a_row + 1, end + 1)
        if (before := _newest_before(known, x[window.start])) is None:
            continue
        deviation, value = _deviation(before, x[window], y[window], stderr[window])
        if not np.isfinite(deviation).all():
            continue
        judged += 1
        limit = -float(stdtrit(before.dof, ALPHA * 6 / (np.pi * judged) ** 2 / 2))
        if (deviation > limit).all() or (deviation < -limit).all():
            sides[end], expected[end], known_to[end] = np.sign(deviation[-1]), value[-1], before.known_to
    return [
        Departure(
            first - in_a_row + 1,
            first,
            stop - 1,
            bool(sides[first] < 0),
            float(expected[first]),
            float(known_to[first]),
        )
        for first, stop in _stretches(sides)
    ]


def _newest_before(known: Sequence[Known], x: float) -> Known | None:
    """Of those that had seen nothing from x on, the one that had seen most; of equals the newest."""
    before = [one for one in known if one.known_to < x]
    return max(enumerate(before), key=lambda item: (item[1].known_to, item[0]))[1] if before else None


def _deviation(
    known: Known, x: np.ndarray, y: np.ndarray, stderr: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How many standard errors each evaluation lies from the forecast, and the forecast; NaN where it does not go.

    The error has two parts: of the mean pass rate (by the half width on that side), and of one evaluation.
    """
    value, lo, hi = known.forecast.at(x)
    reach = np.where(y < value, value - lo, hi - value) / normal_quantile(known.forecast.level)
    spread = np.hypot(reach, np.maximum(known.noise, stderr))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, (y - value) / spread, np.nan), value


def _stretches(sides: np.ndarray) -> list[tuple[int, int]]:
    """[start, stop) of each unbroken stretch on one side, in their order."""
    return sorted(episodes_of(sides < 0, 1) + episodes_of(sides > 0, 1))
