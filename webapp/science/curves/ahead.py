"""What a run's forecast answers, in words: its ceiling, more compute, a target, what came after a cutoff.

All of it is read from a stored forecast (`webapp.science.curves.fitting`), widened by what the project's record
asks for, so that nothing is fitted here. Whether the ceiling is known is decided by the width of its interval, not by
one form.
"""

import math

import numpy as np

from scaling import plan
from scaling.course import Course, normal_quantile, widest_known
from webapp.science.curves import answers, words
from webapp.science.curves.fitting import Curve, Question
from webapp.science.curves.words import Axis, Payload

SETTLE_STEPS = 200  # computes that are tried between the last one seen and the farthest kept
NO_FORECAST = "no forecast yet"


def ceiling(forecast: Course | None) -> Payload:
    """The forecast ceiling as it may be shown: a value only where its interval is narrow enough to be called known."""
    if forecast is None:
        return ceiling_from(None, None, None, 0.9)
    return ceiling_from(forecast.status, forecast.ceiling, forecast.interval, forecast.level)


def ceiling_from(
    status: str | None, value: float | None, interval: tuple[float, float] | None, level: float
) -> Payload:
    """The same of a forecast's own numbers; status None: there is none."""
    if value is None or interval is None:
        none = {"identified": False, "value": None, "lo": None, "hi": None, "text": "–"}
        return none | {"interval_text": NO_FORECAST if status is None else "no forecast"}
    known = status == "ok"
    return {
        "identified": known,
        "value": value if known else None,
        "lo": interval[0],
        "hi": interval[1],
        "text": words.rate(value, interval) if known else "not known yet",
        "interval_text": words.between(interval, level),
    }


def sentence(forecast: Course | None, axis: Axis) -> str:
    """Why there is no ceiling, or that the tail is not known yet and what compute would settle it; "" where known."""
    if forecast is None or forecast.known:
        return ""
    if forecast.interval is None:
        return f"No forecast: {forecast.message}."
    parts = "the forms that fit these evaluations part beyond them"
    return f"The tail is not known yet: {parts}. {settling(forecast, axis)}"


def settling(forecast: Course, axis: Axis) -> str:
    """From which compute on the tail would be known, as far as the forecast tells."""
    if (at := settles_at(forecast)) is None:
        most = f"{forecast.compute[-1] / (forecast.seen or 1.0):.0f}"
        return f"Not even {most} times the compute so far would settle it."
    times = at / (forecast.seen or at)
    return f"About {axis.short_text(at)}, {times:.2g} times the compute so far, would settle it."


def settles_at(forecast: Course) -> float | None:
    """The least compute from which on so little of the ceiling's interval would be open that it is called known; None
    where that is beyond what the forecast keeps.

    What is open once the curve is known up to C is the part of the ceiling's interval that opens beyond C: its width
    less what the band has widened by between now and C. That is exact where the forms keep their order.
    """
    if forecast.interval is None or forecast.seen is None:
        return None
    at = np.geomspace(forecast.seen, forecast.compute[-1], SETTLE_STEPS)
    _, lo, hi = forecast.at(at)
    width = hi - lo
    left = (forecast.interval[1] - forecast.interval[0]) - (width - width[0])
    enough = np.flatnonzero(left <= widest_known(forecast.level))
    return float(at[enough[0]]) if len(enough) else None


def multiples(forecast: Course | None, axis: Axis) -> list[Payload]:
    """Rows: the forecast at some multiples of the compute seen."""
    return [
        {
            "times": times,
            "compute": c,
            "compute_text": axis.short_text(c),
            "value": value,
            "interval": [lo, hi],
            "text": words.rate(value, (lo, hi)),
            "interval_text": words.span((lo, hi)),
        }
        for times, c, value, lo, hi in (forecast.multiples() if forecast else ())
    ]


def at_compute(forecast: Course | None, at: float | None, *, has_budget: bool) -> Payload:
    """The pass rate that is forecast at the end of the budget."""
    if not has_budget:
        return {"value_text": "–", "sentence": "this run has no budget"}
    said = None if forecast is None or at is None else forecast.value_at(at)
    if forecast is None or said is None or math.isnan(said[0]):
        return {"value_text": "–", "sentence": "nothing forecast yet"}
    value, *ends = said
    interval = (ends[0], ends[1])
    return {"value_text": words.rate(value, interval), "sentence": words.between(interval, forecast.level)}


def for_evaluations(
    forecast: Course, at: np.ndarray, noise_sd: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(value, lo, hi) [n] of single evaluations: half widths of the mean and of the noise, added as independent."""
    value, lo, hi = forecast.at(at)
    reach = normal_quantile(forecast.level) * noise_sd
    return value, value - np.hypot(value - lo, reach), value + np.hypot(hi - value, reach)


def now(forecast: Course | None, noise_sd: float, curve: Curve, question: Question) -> Payload:
    """The newest evaluation, and whether it was expected."""
    said = answers.newest(curve, question)
    if not len(curve.y) or forecast is None:
        return said
    at, value = float(curve.x[-1]), float(curve.y[-1])
    expected, lo, hi = (column[0] for column in for_evaluations(forecast, np.array([at]), noise_sd))
    if math.isnan(expected):
        return said
    known = "forecast" if question.cutoff is not None and at > question.cutoff else "fitted"
    side = "inside" if lo <= value <= hi else "outside"
    level = words.percent(forecast.level)
    band = f"{known} {words.rate(expected, (lo, hi))} here, {side} the {level} band"
    return said | {"sentence": band + answers.not_known_since(curve, question)}


def after(forecast: Course | None, noise_sd: float, curve: Curve, question: Question) -> Payload | None:
    """The evaluations past the cutoff against what was forecast for them; None without such points."""
    later = curve.after(question)
    if forecast is None or not later.any():
        return None
    x, y = curve.x[later], curve.y[later]
    columns = np.stack([x, y, *for_evaluations(forecast, x, noise_sd)])
    x, y, value, lo, hi = columns[:, ~np.isnan(columns[2])]
    if not len(x):
        return None
    n, inside, error = len(x), int(((lo <= y) & (y <= hi)).sum()), float((y - value).mean())
    return {
        "n": n,
        "inside": inside,
        "mean_error": error,
        "sentence": f"{words.count(n, 'evaluation')}, {inside} inside the {words.percent(forecast.level)} band, "
        f"mean error {words.signed(error)}.",
        "residuals": {
            "x": x.tolist(),
            "y": (y - value).tolist(),
            "lo": (lo - value).tolist(),
            "hi": (hi - value).tolist(),
        },
    }


def target(forecast: Course | None, start: float | None, axis: Axis, goal: answers.Goal) -> Payload:
    """Compute to the goal, a pass rate or a share of the gain from `start` to the forecast ceiling."""
    title = f"To {goal.text}"
    none = {"title": title, "value_text": "–"}
    if forecast is None or forecast.ceiling is None:
        return none | {"sentence": "needs a forecast"}
    rate = goal.value
    if goal.of == "gain":
        if not forecast.known or start is None:
            return none | {"sentence": "needs a known ceiling"}
        rate = start + goal.value * (forecast.ceiling - start)
        title = f"To reach {rate:.2f}"
    found, ends = plan.compute_to(forecast, rate)
    between = answers.compute_between(ends, forecast.level, axis)
    if found is None:
        never = rate > forecast.ceiling
        value = "never" if never else f"> {axis.short_text(float(forecast.compute[-1]))}"
        said = "above the forecast ceiling; " if never else "beyond what is forecast; "
        return {"title": title, "value_text": value, "sentence": f"{said}{between}"}
    value = axis.short_text(found) if found > 0 else "at the start"
    sentence = f"{goal.text} ({between})" if goal.of == "gain" else between
    return {"title": title, "value_text": value, "sentence": sentence}


def advice(
    forecast: Course | None, noise_sd: float, curve: Curve, axis: Axis, end_x: float | None, *, ended: bool
) -> str:
    """One sentence on whether more compute is worth it."""
    if forecast is None and curve.unknown:
        return f"No advice by {axis.unit}, which are not known of enough evaluations."
    if forecast is None:
        return answers.TOO_EARLY
    if forecast.interval is None:
        return f"No advice: {forecast.message}."
    at = float(forecast.seen or curve.x[-1])
    beyond = end_x if end_x is not None and end_x > 1.02 * at and not ended else 2 * at
    gain, least, most = plan.gain(forecast, beyond)
    more = f"the next {axis.short_text(beyond - at)}"
    level = words.percent(forecast.level)
    share = f"{words.signed(gain, (least, most))} ({level} {words.signed_span((least, most))})"
    if most < noise_sd:
        return f"Close to its ceiling: {more} would add {share}, less than the noise of one evaluation."
    return f"{'Worth continuing' if least > 0 else 'Perhaps worth continuing'}: {more} would add {share}."


def verdict(forecast: Course | None, advice: str) -> str:
    """Where it tops out, and whether to go on: what a page about it says first."""
    found = ceiling(forecast)
    if found["lo"] is None:
        return advice
    known = f"Tops out at {found['text']}" if found["identified"] else "Where it tops out is not known yet"
    return f"{known} ({found['interval_text']}). {advice}"


def summary(forecast: Course | None) -> str:
    """ "forecast ceiling 0.610, 90 % 0.596 to 0.627", for a sentence that is pasted."""
    found = ceiling(forecast)
    if found["lo"] is None:
        return NO_FORECAST
    if found["identified"]:
        return f"forecast ceiling {found['text']}, {found['interval_text']}"
    return f"forecast ceiling not known yet, {found['interval_text']}"
