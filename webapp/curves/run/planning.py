"""What to do next with a run, in words: the compute to a target, whether to stop, and what more compute would add."""

from functools import lru_cache
from typing import Any

import numpy as np

import scaling
from scaling import plan
from scaling.draws import chance
from webapp.curves import answers, words
from webapp.curves.answers import DEFAULT_GOAL, Goal
from webapp.curves.axes import Axis
from webapp.curves.fitting import Curve, Question, or_problem, try_fit

Payload = dict[str, Any]
DEFAULT_DELTA = 0.01  # of pass rate: less than this left to gain is not worth going on
SURE = 0.9  # probability at which stopping is advised
MORE = (1.1, 1.25, 1.5, 2.0, 4.0)  # multiples of the compute so far


def plan_answers(
    curve: Curve,
    question: Question,
    axis: Axis,
    end_x: float | None,
    goal: Goal = DEFAULT_GOAL,
    delta: float = DEFAULT_DELTA,
) -> Payload:
    """{"problem", "reach", "stop", "stops", "more"}: sentences, and a row for each amount of more compute."""
    fit, problem = try_fit(curve, question)
    if fit is None or fit.params is None:
        why = problem or f"No curve could be fitted: {fit.message if fit else 'no points'}."
        return {"problem": why if len(curve.x) >= scaling.MIN_POINTS else answers.TOO_EARLY}
    return or_problem(lambda: _answers(fit, curve, axis, end_x, goal, delta), question)


def stop_advice(curve: Curve, question: Question, axis: Axis, delta: float) -> str:
    """Why to stop, where the planner advises it: less than `delta` of pass rate is left with a probability of SURE.
    Empty where it does not, or cannot say."""
    fit, _ = try_fit(curve, question)
    if fit is None or fit.params is None or len(curve.x) < scaling.MIN_POINTS:
        return ""
    stop = _when_to_stop(fit, float(curve.x[-1]), delta)
    return _stop(stop, axis) if stop.stop else ""


def _answers(
    fit: "scaling.Fit", curve: Curve, axis: Axis, end_x: float | None, goal: Goal, delta: float
) -> Payload:
    at, rate = float(curve.x[-1]), goal.rate(fit)
    stop = _when_to_stop(fit, at, delta)
    return {
        "reach": _no_gain(goal) if rate is None else _reach(_compute_to(fit, rate), goal, at, axis),
        "stop": _stop(stop, axis),
        "stops": bool(stop.stop),
        "more": more_compute(fit, at, end_x, axis),
    }


# A fit is one object for one question, and drawing 4,000 curves takes longer than anything else here.
@lru_cache(maxsize=64)
def _compute_to(fit: "scaling.Fit", target: float) -> plan.Reach:
    return plan.compute_to(fit, target)


@lru_cache(maxsize=64)
def _when_to_stop(fit: "scaling.Fit", at: float, delta: float) -> plan.Stop:
    return plan.when_to_stop(fit, at, delta, SURE)


def _no_gain(goal: Goal) -> str:
    return f"{goal.text.capitalize()} is not a number yet: it needs an identified ceiling. Ask for a pass rate instead."


def _reach(reach: plan.Reach, goal: Goal, at: float, axis: Axis) -> str:
    target = f"A pass rate of {words.rate(reach.target)}"
    if goal.of == "gain":
        target += f" ({goal.text})"
    lo, hi = reach.interval
    if not reach.identified:
        early = (
            "" if lo is None else f" It is not reached before {_at(lo, axis)} ({words.percent(reach.level)})."
        )
        return f"{target}: the ceiling is not identified, so nobody can say when.{early}"
    if reach.compute is None:
        early = "" if lo is None else f"; not before {_at(lo, axis)} ({words.percent(reach.level)})"
        return f"{target} lies above the ceiling with probability {chance(reach.above_ceiling)}{early}."
    if reach.compute <= 0:
        return f"{target} is where the curve starts."
    doubt = ""
    if hi is None or reach.above_ceiling >= 0.005:
        doubt = f" With probability {chance(reach.above_ceiling)} it lies above the ceiling and never comes."
    between = answers.compute_between((lo, hi), reach.level, axis)
    when = f"{_at(reach.compute, axis)} ({between}), {_from_now(reach.compute, at, axis)}"
    return f"{target} {'was' if reach.compute <= at else 'is'} reached at {when}.{doubt}"


def _from_now(compute: float, at: float, axis: Axis) -> str:
    if compute <= at:
        return f"{axis.short_text(at - compute)} before the newest evaluation"
    return f"{axis.short_text(compute - at)} from the newest evaluation on"


def _stop(stop: plan.Stop, axis: Axis) -> str:
    if stop.remaining is None:
        return "Whether to stop cannot be said: the ceiling is not identified, so what is left to gain is not known."
    lo, hi = stop.remaining_interval
    left = f"{words.rate(stop.remaining, (lo, hi))} is left to gain ({words.between((lo, hi), stop.level)})"
    sure = f"less than {stop.delta:g} with probability {chance(stop.below)}"
    if stop.stop:
        return f"Stop: {left}, {sure}."
    if stop.compute is None:
        return f"Go on: {left}, {sure}."
    between = answers.compute_between(stop.interval, stop.level, axis)
    half = f"Less than {stop.delta:g} is as likely as not from {_at(stop.compute, axis)} on ({between})"
    safe = (
        ""
        if stop.stop_at is None
        else f", and {100 * stop.probability:g} % sure from {_at(stop.stop_at, axis)} on"
    )
    return f"Go on: {left}, {sure}. {half}{safe}."


def more_compute(fit: "scaling.Fit", at: float, end_x: float | None, axis: Axis) -> list[Payload]:
    """Rows: what the curve adds from `at` to some multiples of it and to the end of the budget, with intervals.

    Without an identified ceiling the gains are one-sided: at least what the lower end says.
    """
    goals = {at * times: f"{times:g} × so far" for times in MORE}
    if end_x is not None and end_x > 1.001 * at:
        goals[end_x] = "end of the budget"
    return [_more_row(fit, at, to, label, axis) for to, label in sorted(goals.items())]


def _more_row(fit: "scaling.Fit", at: float, to: float, label: str, axis: Axis) -> Payload:
    value, lo, hi = plan.gain(fit, at, to)
    low, high = (float(np.squeeze(end)) for end in fit.predict_interval(np.array([to])))
    known = fit.status == "ok"
    between = lambda ends, show: " to ".join(show(end) for end in ends)
    change = lambda gain: words.signed(gain, words.decimals_for(lo, hi))
    return {
        "label": label,
        "to": _at(to, axis),
        "more": _at(to - at, axis),
        "gain": change(value) if known else "–",
        "gain_interval": between((lo, hi), change),
        "rate": words.rate(float(np.squeeze(fit.predict(np.array([to])))), (low, high)) if known else "–",
        "rate_interval": between((low, high), lambda end: words.rate(end, (low, high))),
    }


def _at(compute: float, axis: Axis) -> str:
    return axis.short_text(compute)
