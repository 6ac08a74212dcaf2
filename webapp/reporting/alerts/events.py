"""What happened in a run, by what is stored of it: each kind of condition gives the events that it means, with the time
of each. Firing, and the dry run of a form, both ask here, so that they cannot differ.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from django.db import connection

from scaling.course import Course
from webapp.record.alarm_rules import rules_by_name
from webapp.record.runs.models import Attempt, Run, State, Summary
from webapp.record.runs.points import effective_points
from webapp.record.runs.states import ENDED
from webapp.reporting.alarms import judge
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alerts.conditions import (
    COMPARISONS,
    AlarmCondition,
    BudgetCondition,
    Condition,
    FitCondition,
    MetricCondition,
    OutcomeCondition,
    StateCondition,
    departures,
    known_from,
)
from webapp.science.curves import fitting, words
from webapp.science.curves.models import Fit
from webapp.science.curves.record.recalibrating import record_of
from webapp.science.curves.run.analyses import whole_fits
from webapp.science.predictions.claims import outcome_sentence
from webapp.science.predictions.models import Outcome


@dataclass(frozen=True)
class Event:
    """One episode. `span` holds `mark` (the step or fit at which it counted) and everything that is the same episode,
    however its beginning moves when late or superseded records come; `topic` tells spans of different things apart."""

    episode: str
    at: datetime
    says: str
    topic: str = ""
    mark: float | None = None
    span: tuple[float, float] | None = None
    critical: bool = False


class RunData:
    """A run with what its rules read, each read once and only if a rule asks."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.points = cache(partial(effective_points, run))  # of a metric, in the order of training

    @cached_property
    def attempts(self) -> list[Attempt]:
        return list(self.run.attempts.defer("log_tail").order_by("number"))

    @cached_property
    def alarms(self) -> list[Alarm]:
        return list(
            Alarm.objects.filter(run=self.run, rule__in=rules_by_name()).defer("marks").order_by("raised_at")
        )

    @cached_property
    def fits(self) -> list[Fit]:
        """Stored fits of the whole curve, oldest first."""
        return whole_fits(self.run, words.DEFAULT_METRIC)

    @cached_property
    def forecasts(self) -> list[Course | None]:
        """Of each of `fits`, recalibrated by the other runs of the project."""
        ids = [fit.pk for fit in self.fits]
        stored = dict(Fit.objects.filter(pk__in=ids).values_list("pk", "forecast"))
        record, found = record_of(self.run.project_id), [fitting.read(stored.get(pk)) for pk in ids]
        return [one and record.recalibrated(one, self.run.pk) for one in found]

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """Predictions that the run scored, oldest first."""
        rows = Outcome.objects.filter(run=self.run).select_related("prediction__author")
        return list(rows.order_by("pk"))

    @cached_property
    def used_hours(self) -> float | None:
        return Summary.objects.filter(run=self.run).values_list("used_hours", flat=True).first()


def events_of(condition: Condition, data: RunData) -> list[Event]:
    """Everything in the run that the condition means, oldest first."""
    found = _KINDS[type(condition)](condition, data) if type(condition) in _KINDS else ()
    return sorted(found, key=lambda event: event.at)


def _state(condition: StateCondition, data: RunData) -> Iterator[Event]:
    """A state of an attempt with its time: a run that is resumed can fail twice."""
    for attempt in data.attempts:
        of = "" if attempt.number == 1 else f" (attempt {attempt.number})"
        if "started" in condition.states and attempt.started_at is not None:
            yield Event(f"{attempt.number}:started", attempt.started_at, f"has started{of}")
        if attempt.state in condition.states and attempt.state in ENDED and attempt.ended_at is not None:
            stamp = attempt.ended_at.isoformat(timespec="microseconds")
            reason = f": {attempt.message.splitlines()[0]}" if attempt.message.strip() else ""
            said = {State.CANCELLED: "was cancelled", State.LOST: "was lost"}.get(
                State(attempt.state), f"has {attempt.state}"
            )
            yield Event(f"{attempt.number}:{attempt.state}:{stamp}", attempt.ended_at, f"{said}{of}{reason}")


COMPARE: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
}


def _metric(condition: MetricCondition, data: RunData) -> Iterator[Event]:
    points = data.points(condition.metric)
    values = np.array([point.value for point in points], float)
    beyond = COMPARE[condition.comparison](values, condition.threshold)
    for first, stop in judge.episodes_of(beyond, condition.in_a_row):
        point = points[first + condition.in_a_row - 1]
        says = (
            f"{condition.metric} is {judge.number(condition.metric, point.value)} at step {point.step:,}: "
            f"{COMPARISONS[condition.comparison]} {condition.threshold:g}"
        )
        if condition.in_a_row > 1:
            says += f", {condition.in_a_row} times in a row"
        span = (float(points[first].step), float(points[stop - 1].step))
        yield Event(f"step:{points[first].step}", point.time, says, mark=float(point.step), span=span)


def _alarm(condition: AlarmCondition, data: RunData) -> Iterator[Event]:
    """The newest episode of each alarm: earlier ones were newest when they were raised."""
    for alarm in data.alarms:
        if condition.rule in ("", alarm.rule) and condition.level in ("warning", alarm.level):
            says = f"{alarm.level} alarm: {judge.message(alarm, rules_by_name()[alarm.rule])}"
            yield Event(
                f"{alarm.rule}:{alarm.first_step}",
                alarm.raised_at,
                says,
                topic=alarm.rule,
                mark=float(alarm.last_step),
                span=(float(alarm.first_step), float(alarm.last_step)),
                critical=alarm.level == "critical",
            )


def _fit(condition: FitCondition, data: RunData) -> Iterator[Event]:
    fits = data.fits
    if condition.event == "left_band":
        yield from _left_band(condition, data)
    elif condition.event == "stored":
        yield from map(_stored, fits, data.forecasts)
    else:
        holds = np.array([_holds(condition, one) for one in data.forecasts], bool)
        for first, stop in judge.episodes_of(holds, condition.in_a_row):
            counted = first + condition.in_a_row - 1
            fit = fits[counted]
            says = _said_of_ceiling(condition, fit, data.forecasts[counted])
            span = (float(fits[first].pk), float(fits[stop - 1].pk))
            yield Event(f"fit:{fits[first].pk}", fit.created_at, says, mark=float(fit.pk), span=span)


def _stored(fit: Fit, forecast: Course | None) -> Event:
    said = (
        _said_of_ceiling(FitCondition(event="stored"), fit, forecast)
        if _holds(FitCondition(event="identified"), forecast)
        else f"the ceiling is not known yet, at {words.amount(fit.fitted_hi)} device-hours"
    )
    says = f"a new fit of {fit.n} evaluations: {said}"
    return Event(
        f"fit:{fit.pk}", fit.created_at, says, mark=float(fit.pk), span=(float(fit.pk), float(fit.pk))
    )


def _holds(condition: FitCondition, forecast: Course | None) -> bool:
    """Whether one forecast says it. A ceiling that is not known is neither below nor above anything."""
    if forecast is None or not forecast.known or forecast.interval is None or forecast.ceiling is None:
        return False
    if condition.event == "identified" or condition.value is None:
        return True
    lo, hi = forecast.interval
    if condition.event == "ceiling_below":
        return (hi if condition.certain else forecast.ceiling) < condition.value
    return (lo if condition.certain else forecast.ceiling) > condition.value


def _said_of_ceiling(condition: FitCondition, fit: Fit, forecast: Course | None) -> str:
    assert forecast is not None and forecast.interval is not None
    lo, hi = ends = forecast.interval
    ceiling = f"{words.rate(forecast.ceiling, ends)} ({words.rate(lo, ends)} to {words.rate(hi, ends)})"
    at = f"at {words.amount(fit.fitted_hi)} device-hours"
    if condition.event == "identified":
        return f"forecast ceiling known: {ceiling}, {at}"
    if condition.event == "stored":
        return f"the forecast ceiling is {ceiling}, {at}"
    side = "below" if condition.event == "ceiling_below" else "above"
    return f"the forecast ceiling is {ceiling}, {side} {condition.value:g}, {at}"


def _left_band(condition: FitCondition, data: RunData) -> Iterator[Event]:
    points = sorted(
        (p for p in data.points(words.DEFAULT_METRIC) if p.device_hours), key=lambda p: p.device_hours or 0.0
    )
    known = [one for one in map(known_from, data.fits, data.forecasts) if one is not None]
    x = np.array([point.device_hours for point in points], float)
    y = np.array([point.value for point in points], float)
    stderr = np.array([point.stderr or 0.0 for point in points], float)
    for left in departures(x, y, stderr, known, condition.in_a_row):
        point, side = points[left.counted], "below" if left.below else "above"
        says = (
            f"the actual left the band {'downwards' if left.below else 'upwards'}: pass rate {words.rate(point.value)} "
            f"at {words.amount(point.device_hours)} device-hours, the forecast from {words.amount(left.known_to)} said "
            f"{words.rate(left.expected)}"
        )
        span = (float(x[left.first]), float(x[left.last]))
        yield Event(
            f"{side}:{x[left.first]:.9g}",
            point.time,
            says,
            topic=side,
            mark=float(x[left.counted]),
            span=span,
        )


# The stored records, not the summary: it says how much is spent, not when the share was passed.
_PASSED = """
SELECT min("time") FROM runs_record WHERE run_id = %s AND (compute ->> 'device_hours')::float8 >= %s
"""


def _budget(condition: BudgetCondition, data: RunData) -> Iterator[Event]:
    budget, used = data.run.budget_hours, data.used_hours
    if not budget or used is None or used < condition.percent / 100 * budget:
        return
    with connection.cursor() as cursor:
        cursor.execute(_PASSED, [data.run.pk, condition.percent / 100 * budget])
        (at,) = cursor.fetchone()
    if at is not None:
        spent = f"{words.amount(used)} of {words.amount(budget)} device-hours"
        says = f"{condition.percent:g} % of its budget is spent: {spent}"
        yield Event(f"{condition.percent:g} of {budget:g}", at, says)


def _outcome(condition: OutcomeCondition, data: RunData) -> Iterator[Event]:
    """A claim that a rival is passed has no interval: it is neither inside nor outside."""
    for outcome in data.outcomes:
        if condition.scored == "any" or outcome.inside is (condition.scored == "inside"):
            said = outcome_sentence(outcome).removeprefix("Your prediction was scored: ")
            says = f"a prediction of {outcome.prediction.author.get_username()} was scored: {said}"
            yield Event(f"prediction:{outcome.prediction_id}", outcome.created_at, says)


_KINDS: dict[type, Callable[[Any, RunData], Iterable[Event]]] = {
    StateCondition: _state,
    MetricCondition: _metric,
    AlarmCondition: _alarm,
    FitCondition: _fit,
    BudgetCondition: _budget,
    OutcomeCondition: _outcome,
}
