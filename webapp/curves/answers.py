"""What a fit answers, as payloads with words: the ceiling, now, the end of the budget, a target, what came after.

A ceiling never comes without its interval; where the data do not identify it, the answer says so instead.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import scaling
from scaling import forecast, plan
from scaling.fitting import NOT_BENT
from scaling.identifiability import MIN_POINTS_TO_IDENTIFY
from webapp.curves import words
from webapp.curves.axes import AXES, Axis
from webapp.curves.fitting import Curve, Question

Payload = dict[str, Any]
TOO_EARLY = "Too early to say: a fit needs at least five evaluations after the first update."
SHARE_OF_GAIN = 0.9  # the target cell asks for the compute to this share of the gain A - R0
UNITS = {key: axis.unit for key, axis in AXES.items()}


@dataclass(frozen=True)
class Goal:
    """A target: `value` in (0, 1), a pass rate (of="rate") or a share of the gain A - R0 (of="gain")."""

    value: float = SHARE_OF_GAIN
    of: str = "gain"

    @property
    def text(self) -> str:
        """After "to": "reach 0.60", "90 % of the gain"."""
        return f"reach {self.value:.4g}" if self.of == "rate" else f"{100 * self.value:.4g} % of the gain"

    def rate(self, fit: "scaling.Fit") -> float | None:
        """The pass rate that it means for this fit; None for a share of a gain that is not identified."""
        if self.of == "rate":
            return self.value
        if fit.params is None or fit.status != "ok":
            return None
        return fit.params["R0"] + self.value * (fit.params["A"] - fit.params["R0"])


DEFAULT_GOAL = Goal()


def ceiling(status: str, interval: words.Interval | None, value: float | None, level: float) -> Payload:
    """A as it may be shown. `status` is the fit's; only "ok" gives a value."""
    if status == "ok" and value is not None and interval is not None:
        return {
            "identified": True,
            "value": value,
            "lo": interval[0],
            "hi": interval[1],
            "text": words.rate(value, interval),
            "interval_text": words.between(interval, level),
        }
    lo = interval[0] if interval else None
    return {
        "identified": False,
        "value": None,
        "lo": lo,
        "hi": None,
        "text": "not identified yet",
        "interval_text": f"{words.percent(level)} at least {floored(lo)}" if lo is not None else "no fit yet",
    }


def ceiling_of(fit: "scaling.Fit | None", level: float) -> Payload:
    """The ceiling of a fit, or of no fit at all."""
    if fit is None or fit.params is None:
        return ceiling("failed", None, None, level)
    if fit.status != "ok":
        return ceiling(fit.status, (fit.at_least(), None), None, level)
    return ceiling("ok", fit.interval("A"), fit.params["A"], level)


def shown_intervals(fit: "scaling.Fit") -> dict[str, words.Interval] | None:
    """The intervals of all parameters; that of a ceiling which is not identified is its one-sided bound."""
    if not fit.params:
        return None
    intervals = {name: fit.interval(name) for name in fit.params}
    if fit.status != "ok":
        intervals["A"] = (fit.at_least(), None)
    return intervals


def now(fit: "scaling.Fit | None", curve: Curve, question: Question) -> Payload:
    """The newest evaluation, and whether the fit expected it."""
    unit = UNITS[question.x]
    if not len(curve.y):
        none = (
            f"of no evaluation the {unit} are known"
            if curve.unknown
            else "no evaluation after the first update yet"
        )
        return {"value_text": "–", "sentence": none}
    newer = (
        f"; {words.count(curve.newer_unknown, 'evaluation')} since, {unit} not known"
        if curve.newer_unknown
        else ""
    )
    value, at = float(curve.y[-1]), float(curve.x[-1])
    se = curve.se[-1]
    text = words.rate(value, (value - se, value + se)) if np.isfinite(se) else words.rate(value)
    if fit is None or fit.params is None:
        return {"value_text": text, "sentence": f"nothing predicted yet{newer}"}
    lo, hi = (float(np.squeeze(v)) for v in fit.predict_interval(np.array([at]), kind="new"))
    predicted = float(np.squeeze(fit.predict(np.array([at]))))
    known = "predicted" if question.cutoff is not None and at > question.cutoff else "fitted"
    side = "inside" if lo <= value <= hi else "outside"
    return {
        "value_text": text,
        "sentence": f"{known} {predicted:.3f} here, {side} the {words.percent(question.level)} band{newer}",
    }


def at_compute(
    fit: "scaling.Fit | None", at: float | None, question: Question, *, has_budget: bool
) -> Payload:
    """The predicted pass rate at the end of the budget, with the interval of the curve."""
    if not has_budget:
        return {"value_text": "–", "sentence": "this run has no budget"}
    if at is None or fit is None or fit.params is None:
        return {"value_text": "–", "sentence": "nothing predicted yet"}
    interval = mean_interval(fit, at)
    if fit.status != "ok":
        return {"value_text": "–", "sentence": f"not identified; {words.between(interval, question.level)}"}
    value = float(np.squeeze(fit.predict(np.array([at]))))
    return {"value_text": words.rate(value, interval), "sentence": words.between(interval, question.level)}


def unknown(curve: Curve, axis: Axis) -> str:
    """How many evaluations this axis cannot show, and that no fit on it knows them; empty where it shows all."""
    n = len(curve.unknown)
    if not n:
        return ""
    of = n + len(curve.x) + len(curve.start)
    those = f"The {UNITS[axis.key]} of {n:,} of {words.count(of, 'evaluation')} are not known"
    return f"{those}: {'it is' if n == 1 else 'they are'} not drawn here and not in the fit. Steps are known of all."


def without_unknown(curve: Curve, axis: Axis) -> str:
    """The same after a summary, which travels without its page: a sentence after a space, or nothing."""
    n = len(curve.unknown)
    said = f" {words.count(n, 'evaluation')} without known {UNITS[axis.key]} {'is' if n == 1 else 'are'} left out."
    return said if n else ""


def mean_interval(fit: "scaling.Fit", at: float) -> tuple[float, float]:
    """The curve's interval at one compute."""
    lo, hi = fit.predict_interval(np.array([at]), kind="mean")
    return float(np.squeeze(lo)), float(np.squeeze(hi))


def target(fit: "scaling.Fit | None", axis: Axis, question: Question, goal: Goal = DEFAULT_GOAL) -> Payload:
    """Compute to the goal, a pass rate or a share of the gain; what is above the ceiling or not known is said."""
    title = f"To {goal.text}"
    if fit is None or fit.params is None:
        return {"title": title, "value_text": "–", "sentence": "needs a fit"}
    rate = goal.rate(fit)
    if rate is None:
        return {"title": title, "value_text": "–", "sentence": "needs an identified ceiling"}
    lo, hi = fit.compute_for_interval(rate)
    of_gain = f"{goal.text}; " if goal.of == "gain" else ""
    if fit.status != "ok":
        return {
            "title": title,
            "value_text": "–",
            "sentence": f"not identified; {_not_before(lo, axis, question)}",
        }
    found = fit.compute_for(rate)
    if math.isinf(found):
        sentence = f"above the ceiling; {_not_before(lo, axis, question)}"
        return {"title": title, "value_text": "never", "sentence": sentence}
    return {
        "title": f"To reach {rate:.2f}" if goal.of == "gain" else title,
        "value_text": axis.short_text(found) if found > 0 else "at the start",
        "sentence": f"{of_gain}{compute_between((lo, hi), question.level, axis)}",
    }


def compute_between(interval: words.Interval, level: float, axis: Axis) -> str:
    """An interval of the compute to a target: an end that is open is never reached."""
    lo, hi = (("never" if end is None else axis.amount(end)) for end in interval)
    return f"{words.percent(level)} between {lo} and {hi}"


def _not_before(lo: float | None, axis: Axis, question: Question) -> str:
    if lo is None:
        return f"outside the {words.percent(question.level)} band at any compute"
    return f"{words.percent(question.level)} not before {axis.short_text(lo)}"


def after(fit: "scaling.Fit | None", curve: Curve, question: Question) -> Payload | None:
    """The evaluations past the cutoff against what the fit predicted for them; None without such points."""
    later = curve.after(question)
    if fit is None or fit.params is None or not later.any():
        return None
    x, y = curve.x[later], curve.y[later]
    score = forecast.score(fit, x, y)
    predicted = np.asarray(fit.predict(x))
    lo, hi = fit.predict_interval(x, kind="new")
    return {
        "n": score.n,
        "inside": score.inside,
        "mean_error": score.mean_error,
        "sentence": f"{words.count(score.n, 'evaluation')}, {score.inside} inside the "
        f"{words.percent(question.level)} band, mean error {words.signed(score.mean_error or 0.0)}.",
        "residuals": {
            "x": x.tolist(),
            "y": (y - predicted).tolist(),
            "lo": (np.asarray(lo) - predicted).tolist(),
            "hi": (np.asarray(hi) - predicted).tolist(),
        },
    }


def advice(fit: "scaling.Fit | None", curve: Curve, axis: Axis, end_x: float | None, ended: bool) -> str:
    """One sentence on whether more compute is worth it."""
    if fit is None and curve.unknown:
        return f"No advice by {UNITS[axis.key]}, which are not known of enough evaluations."
    if fit is None:
        return TOO_EARLY
    if fit.params is None:
        return f"No advice: {fit.message}."
    if fit.status != "ok" and fit.n < MIN_POINTS_TO_IDENTIFY:
        return (
            f"Too early to say: a ceiling takes {MIN_POINTS_TO_IDENTIFY} evaluations, and these are {fit.n}."
        )
    if fit.status != "ok" and NOT_BENT in fit.message:
        return "The curve has not bent enough to see its ceiling; more compute will tell."
    if fit.status != "ok":
        return f"No advice yet. {_sentence(fit.message)}"
    at = float(curve.x[-1])
    beyond = end_x if end_x is not None and end_x > at * 1.02 and not ended else 2 * at
    gain, lo, hi = plan.gain(fit, at, beyond)
    more = f"the next {axis.short_text(beyond - at)}"
    share = f"{words.signed(gain)} ({words.percent(fit.level)} {words.signed(lo)} to {words.signed(hi)})"
    if fit.noise_sd is not None and hi < fit.noise_sd:
        return f"Close to its ceiling: {more} would add {share}, less than the noise of one evaluation."
    return f"{'Worth continuing' if lo > 0 else 'Perhaps worth continuing'}: {more} would add {share}."


def fit_title(fit: "scaling.Fit | None", axis: Axis) -> str:
    """ "Fit on 0.1 to 0.9 device-hours": the window, in the axis' own unit."""
    if fit is None:
        return "Fit"
    return f"Fit on {axis.amount(fit.window[0])} to {axis.text(fit.window[1])}"


def fit_sentence(fit: "scaling.Fit | None", message: str = "") -> str:
    """What was fitted and how well."""
    if fit is None:
        return message or "No fit yet."
    r2 = f", R² {fit.r2:.3f}" if fit.r2 is not None and np.isfinite(fit.r2) else ""
    message = f" {_sentence(fit.message)}" if fit.message else ""
    return f"{words.count(fit.n, 'point')}{r2}.{message}"


def _sentence(message: str) -> str:
    return f"{message[0].upper()}{message[1:]}."


def ceiling_sentence(ceiling: Payload, level: float) -> str:
    """ "ceiling 0.610, 90 % between 0.596 and 0.627", or "ceiling not identified yet: at least 0.48 (90 %)"."""
    if ceiling["identified"]:
        return f"ceiling {ceiling['text']}, {ceiling['interval_text']}"
    if ceiling["lo"] is None:
        return "ceiling not identified: no fit yet"
    return f"ceiling not identified yet: at least {floored(ceiling['lo'])} ({words.percent(level)})"


def floored(bound: float) -> str:
    """A lower bound with two decimals, rounded down: rounding up would promise more than is known."""
    return f"{math.floor(100 * bound) / 100:.2f}"


def summary(name: str, fit: "scaling.Fit | None", axis: Axis, level: float) -> str:
    """One sentence that can be pasted: the ceiling and the other parameters with their intervals, and from what."""
    said, unit = f"{name}: {ceiling_sentence(ceiling_of(fit, level), level)}", UNITS[axis.key]
    if fit is None or fit.params is None:
        return f"{said}."
    if fit.status == "ok":
        two = lambda value: f"{value:.2f}"
        b = _with_interval(two(fit.params["B"]), fit.interval("B"), two)
        c_mid = _with_interval(words.amount(fit.params["C_mid"]), fit.interval("C_mid"), words.amount)
        said += f"; B {b}; half of the gain at {c_mid} {unit}"
    span = " to ".join(axis.amount(end) for end in fit.window)
    left = f", {words.count(len(fit.left_out), 'outlier')} left out" if fit.left_out else ""
    return f"{said}. From {words.count(fit.n, 'evaluation')}, {span} {unit}{left}."


def _with_interval(value: str, interval: words.Interval, show) -> str:
    lo, hi = ("open" if end is None else show(end) for end in interval)
    return f"{value} ({lo} to {hi})"
