"""What the run page says of the forecast, from the fit's basis and the interval that the project's record asks for.

What to do next with a run, by its forecast: the compute to a target, whether to stop, what more would add.
"""

import numpy as np

import scaling
from scaling import plan
from scaling.course import Course
from scaling.noise import noise
from scaling.scores import late_mean
from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Run
from webapp.record.runs.states import ENDED
from webapp.science.curves import ahead, answers, fitting, words
from webapp.science.curves.fitting import Curve, Question, fitted_points, try_fit
from webapp.science.curves.record.recalibrating import Widening, record_of
from webapp.science.curves.words import AXES, Axis, Payload

NEWER = "newer than the forecast, which will know it in a moment"
DRAWN_TO = 2.0  # times the compute known, without a budget
MIN_POINTS_FOR_HINDSIGHT = 5
DEFAULT_DELTA = 0.01  # of pass rate: less than this left to gain is not worth going on
MORE = (1.1, 1.25, 1.5, 2.0, 4.0)  # multiples of the compute so far


def basis_of(fit: "scaling.Fit | None", curve: Curve, question: Question) -> Payload:
    """What is kept for `answered`: stored forecasts of the question and of half of its compute, and what of the fit
    their sentences mention."""
    return {
        "forecast": fitting.forecast_of(fit) if fit else None,
        "noise_sd": noise_of(fit),
        "start": start_of(fit, curve),
        "half": _half(curve, question) if fit else None,
        "summary": answers.summary(fit, AXES[question.x], question.level),
    }


def start_of(fit: "scaling.Fit | None", curve: Curve) -> float | None:
    """The pass rate before training: the fit's R0, else what was evaluated."""
    if fit is not None and fit.params:
        return fit.params["R0"]
    return float(np.mean(curve.start)) if curve.start else None


def forecast_of_run(run: Run, fit: "scaling.Fit | None", question: Question) -> Course | None:
    """The forecast from the points of a fit, recalibrated by the project's other runs; None where there is none."""
    stored = fitting.forecast_of(fit) if fit else None
    return _widened(stored, record_of(run.project_id).widening(question.level, run.pk))


def _half(curve: Curve, question: Question) -> Payload | None:
    """The forecast from half of the compute; None where either half has too few evaluations."""
    if len(curve.x) < 2 * MIN_POINTS_FOR_HINDSIGHT:
        return None
    level, metric = question.level, question.metric
    if question.robust:  # an evaluation that crashed says nothing of the forecast either
        curve = curve.only(
            fitted_points(curve, Question(question.x, level=level, metric=metric, robust=True))
        )
    half = float(curve.x[-1]) / 2
    early = Question(question.x, half, None, level, metric)
    fit, _ = try_fit(curve, early)
    if fit is None or not curve.after(early).any():
        return None
    return {"cutoff": half, "forecast": fitting.forecast_of(fit), "noise_sd": noise_of(fit)}


def noise_of(fit: "scaling.Fit | None") -> float:
    """Of one evaluation: the fit's, else by the scatter of its points."""
    if fit is None or fit.data is None:
        return 0.0
    return (
        fit.noise_sd if fit.noise_sd and np.isfinite(fit.noise_sd) else float(np.sqrt(noise(fit.data).mean()))
    )


def answered(
    run: Run, curve: Curve, question: Question, goal: answers.Goal, basis: Payload, *, waiting: int
) -> Payload:
    """The cells, the drawn forecast and the sentences. `waiting`: how many evaluations the forecast does not know."""
    axis, end_x = AXES[question.x], end_of_budget(run, curve)
    widening = record_of(run.project_id).widening(question.level, run.pk)
    found = _widened(basis["forecast"], widening)
    noise_sd = basis["noise_sd"]
    advice = ahead.advice(found, noise_sd, curve, axis, end_x, ended=run.state in ENDED)
    return {
        "verdict": ahead.verdict(found, advice),
        "forecast": payload(found, widening, curve, axis, end_x),
        "now": answers.newest(curve, question) | {"sentence": NEWER}
        if waiting
        else ahead.now(found, noise_sd, curve, question),
        "end": ahead.at_compute(found, end_x, has_budget=run.budget_hours is not None),
        "target": ahead.target(found, basis["start"], axis, goal),
        "after": ahead.after(found, noise_sd, curve, question),
        "hindsight": hindsight(basis["half"], widening, curve, axis, question),
        "summary": f"{label_of(run)}: {ahead.summary(found)}. {basis['summary']}"
        + answers.without_unknown(curve, axis),
    }


def _widened(stored: Payload | None, widening: Widening) -> Course | None:
    found = fitting.read(stored)
    return None if found is None else found.widened(widening.factor)


def payload(
    found: Course | None, widening: Widening, curve: Curve, axis: Axis, end_x: float | None
) -> Payload | None:
    """The forecast as the page draws and says it; None where there is none."""
    if found is None:
        return None
    return {
        "status": found.status,
        "message": found.message,
        "level": found.level,
        "seen": found.seen,
        "widening": found.widening,
        "recalibrated": widening.sentence,
        "ceiling": ahead.ceiling(found),
        "multiples": ahead.multiples(found, axis),
        "sentence": ahead.sentence(found, axis),
        "settles_at": None if found.known else ahead.settles_at(found),
        "drawn": drawn(found, curve, end_x),
    }


def drawn(found: Course, curve: Curve, end_x: float | None) -> Payload | None:
    """Solid over what was seen, dashed beyond, and the band over both; None where there is no forecast."""
    if found.seen is None:
        return None
    last = max(end_x or DRAWN_TO * found.seen, 1.25 * float(curve.x[-1]), 1.25 * found.seen)
    return fitting.drawn(found, float(curve.x[0]), last)


def hindsight(
    half: Payload | None, widening: Widening, curve: Curve, axis: Axis, question: Question
) -> Payload | None:
    """What was forecast from half of the compute, against what came: the habit of checking one's predictions."""
    found = _widened(half["forecast"], widening) if half else None
    if half is None or found is None:
        return None
    early = Question(axis.key, half["cutoff"], None, question.level, question.metric)
    score = ahead.after(found, half["noise_sd"], curve, early)
    at, came, _ = late_mean(curve.x, curve.y)
    if score is None:
        return {
            "cutoff": half["cutoff"],
            "sentence": f"From 50 % of the compute there was no forecast: {found.message}.",
        }
    value, lo, hi = (float(column[0]) for column in found.at(np.array([at])))
    return {
        "cutoff": half["cutoff"],
        "n": score["n"],
        "inside": score["inside"],
        "mean_error": score["mean_error"],
        "sentence": f"From 50 % of the compute: forecast {words.rate(value, (lo, hi))} ({words.span((lo, hi))}) for "
        f"{axis.short_text(at)}; the last evaluations came at {words.rate(came, (lo, hi))}. {score['sentence']}",
    }


def end_of_budget(run: Run, curve: Curve) -> float | None:
    """Where the budget ends on this axis; on axes other than device-hours, in proportion to what was spent."""
    if run.budget_hours is None:
        return None
    hours = curve.hours[-1] if len(curve.x) else None
    if not hours or not np.isfinite(hours):
        return None
    return float(curve.x[-1] * run.budget_hours / hours)


def plan_answers(
    run: Run,
    curve: Curve,
    question: Question,
    end_x: float | None,
    goal: answers.Goal = answers.DEFAULT_GOAL,
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
    if (at := plan.near_ceiling(found, delta)) is None:
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
