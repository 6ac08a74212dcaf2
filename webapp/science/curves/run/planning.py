"""What to do next with a run, by its forecast: the compute to a target, whether to stop, what more would add."""

from typing import Any

import scaling
from scaling import plan
from scaling.course import Course
from webapp.record.runs.models import Run
from webapp.science.curves import ahead, answers, words
from webapp.science.curves.answers import DEFAULT_GOAL, Goal
from webapp.science.curves.axes import AXES, Axis
from webapp.science.curves.fitting import Curve, Question, try_fit
from webapp.science.curves.run.forecast import forecast_of_run, start_of

Payload = dict[str, Any]
DEFAULT_DELTA = 0.01  # of pass rate: less than this left to gain is not worth going on
MORE = (1.1, 1.25, 1.5, 2.0, 4.0)  # multiples of the compute so far


def plan_answers(
    run: Run,
    curve: Curve,
    question: Question,
    end_x: float | None,
    goal: Goal = DEFAULT_GOAL,
    delta: float = DEFAULT_DELTA,
) -> Payload:
    """{"problem"}, or {"reach", "stop", "stops", "more"}: sentences, and a row for each amount of more compute."""
    fit, problem = try_fit(curve, question)
    found = forecast_of_run(run, fit, question)
    if found is None or found.ceiling is None:
        why = problem or (f"No forecast: {found.message}." if found else "The forecast crashed.")
        return {"problem": why if len(curve.x) >= scaling.MIN_POINTS else answers.TOO_EARLY}
    axis = AXES[question.x]
    reach = ahead.target(found, start_of(fit, curve), axis, goal)
    return {
        "reach": f"{reach['title']}: {reach['value_text']}; {reach['sentence']}.",
        "stop": _stop(found, delta, axis),
        "stops": plan.may_stop(found, delta),
        "more": [_more_row(found, to, label, axis) for to, label in _amounts(found, end_x)],
    }


def stop_advice(run: Run, curve: Curve, question: Question, delta: float) -> str:
    """Why to stop, where that is advised; empty where it is not, or nothing is forecast."""
    fit, _ = try_fit(curve, question)
    found = forecast_of_run(run, fit, question)
    if found is None or not plan.may_stop(found, delta):
        return ""
    return _stop(found, delta, AXES[question.x])


def _stop(found: Course, delta: float, axis: Axis) -> str:
    value, lo, hi = plan.left(found)
    said = f"{words.rate(value, (lo, hi))} is left to gain ({words.between((lo, hi), found.level)})"
    if plan.may_stop(found, delta):
        sure = words.percent(0.5 + 0.5 * found.level)
        return f"Stop: {said}, less than {delta:g} with a probability of {sure}."
    at = plan.near_ceiling(found, delta)
    if at is None:
        times = found.compute[-1] / (found.seen or 1.0)
        return f"Go on: {said}. Less than {delta:g} is not left within {times:.0f} times the compute so far."
    return f"Go on: {said}. Less than {delta:g} is as likely as not from {axis.short_text(at)} on."


def _amounts(found: Course, end_x: float | None) -> list[tuple[float, str]]:
    """Some multiples of the compute seen, and the end of the budget, in order."""
    at = found.seen or 0.0
    goals = {at * times: f"{times:g} × so far" for times in MORE}
    if end_x is not None and 1.001 * at < end_x <= found.compute[-1]:
        goals[end_x] = "end of the budget"
    return sorted(goals.items())


def _more_row(found: Course, to: float, label: str, axis: Axis) -> Payload:
    value, lo, hi = found.value_at(to)
    gain, *ends = plan.gain(found, to)
    change = lambda rate: words.signed(rate, (lo, hi))
    return {
        "label": label,
        "to": axis.short_text(to),
        "more": axis.short_text(to - (found.seen or 0.0)),
        "gain": change(gain),
        "gain_interval": " to ".join(map(change, ends)),
        "rate": words.rate(value, (lo, hi)),
        "rate_interval": words.span((lo, hi)),
    }
