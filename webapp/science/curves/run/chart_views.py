"""The two other views of a run's chart, as data: log F against log C, and what one more unit of compute adds.

Both take the ceiling as known, so without an identified one they say why there is nothing to draw.
"""

import math

import numpy as np

import scaling
from scaling.curve import slope_view
from webapp.science.curves import words
from webapp.science.curves.answers import floored
from webapp.science.curves.fitting import Curve, Question
from webapp.science.curves.words import Axis, Payload

VIEWS = ("curve", "slope", "gain")
DEFAULT_VIEW = "curve"
UNITS = {"device_hours": "device-hour", "flops": "FLOP", "tokens": "token", "step": "step"}
GAIN_POINTS = 45
GAIN_STEP = 1.01  # the slope at C is the gain over a stretch of this ratio around it, per unit of compute


def labels(axis: Axis) -> Payload:
    """The views' names on this axis."""
    unit = UNITS[axis.key].removeprefix("device-")
    return {"curve": "Curve", "slope": "Slope", "gain": f"Gain per {unit}"}


def view_payload(
    view: str,
    fit: "scaling.Fit | None",
    curve: Curve,
    question: Question,
    axis: Axis,
    role: np.ndarray,
    end_x: float | None,
) -> Payload:
    """{"key", "why", "sentence", ...}: what the view draws besides the points; `why` says that it cannot, and why."""
    why = "" if view == DEFAULT_VIEW else _why_not(view, fit)
    if why or fit is None or view == DEFAULT_VIEW:
        return {"key": view, "why": why, "sentence": ""}
    if view == "slope":
        return {"key": view, "why": "", **slope(fit, curve, question, axis, role)}
    return {"key": view, "why": "", **gain(fit, curve, question, axis, end_x)}


def _why_not(view: str, fit: "scaling.Fit | None") -> str:
    needs = {
        "slope": "log F is measured from the ceiling",
        "gain": "What more compute adds is what is left to the ceiling",
    }[view]
    if fit is None or fit.params is None:
        return f"{needs}, and there is no fit yet."
    if fit.status != "ok":
        bound = fit.at_least()
        least = f": it is at least {floored(bound)}, no more is known" if bound is not None else ""
        return f"{needs}, and the data do not identify it yet{least}."
    return ""


def slope(fit: "scaling.Fit", curve: Curve, question: Question, axis: Axis, role: np.ndarray) -> Payload:
    """log10 F of every point, the line of slope B, and those of the interval of B (arXiv 2510.13786, Fig. 5).

    F is not defined where the pass rate is not between R0 and A; those points are counted.
    """
    params = fit.params or {}
    y, defined = _log_f(curve.x, curve.y, params)
    low, _ = _log_f(curve.x, curve.y - curve.se, params)
    high, _ = _log_f(curve.x, curve.y + curve.se, params)
    undefined = int((~defined).sum())
    return {
        "points": {
            "x": curve.x[defined].tolist(),
            "y": y[defined].tolist(),
            "lo": nullable(low[defined]),
            "hi": nullable(high[defined]),
            "rate": curve.y[defined].tolist(),
            "step": curve.step[defined].tolist(),
            "role": role[defined].tolist(),
        },
        "undefined": undefined,
        "line": _slope_line(fit, curve),
        "sentence": _slope_sentence(fit, question, undefined),
    }


def _log_f(x: np.ndarray, y: np.ndarray, params: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """(log10 F [n], where it is defined [n])."""
    _, log_f = slope_view(x, y, r0=params["R0"], a=params["A"], b=params["B"], c_mid=params["C_mid"])
    return log_f / math.log(10), np.isfinite(log_f)


def _slope_line(fit: "scaling.Fit", curve: Curve) -> Payload:
    """Straight lines through (C_mid, C_mid**B): of slope B, and between which those of its interval lie."""
    params = fit.params or {}
    x = np.geomspace(min(float(curve.x[0]), fit.window[0]), max(float(curve.x[-1]), fit.window[1]), 40)
    middle = params["B"] * math.log10(params["C_mid"])
    at = lambda b: middle + b * (np.log10(x) - math.log10(params["C_mid"]))
    lo, hi = (params["B"] if end is None else end for end in fit.interval("B"))
    edges = np.stack([at(lo), at(hi)])
    return {
        "x": x.tolist(),
        "y": at(params["B"]).tolist(),
        "lo": edges.min(axis=0).tolist(),
        "hi": edges.max(axis=0).tolist(),
    }


def _slope_sentence(fit: "scaling.Fit", question: Question, undefined: int) -> str:
    two = lambda value: f"{value:.2f}"
    said = f"On the fitted sigmoid, log F against log C is a straight line of slope B = {(fit.params or {})['B']:.2f}"
    interval = words.between(fit.interval("B"), question.level, two)
    left = ""
    if undefined:
        verb = "does" if undefined == 1 else "do"
        left = f" {words.count(undefined, 'evaluation')} {verb} not lie between R₀ and A: there F is not defined."
    return f"{said} ({interval}).{left}"


def gain(fit: "scaling.Fit", curve: Curve, question: Question, axis: Axis, end_x: float | None) -> Payload:
    """dR/dC of the fitted curve with its interval, solid over the fitted window and dashed beyond it."""
    lo, hi = fit.window
    last = max(end_x or 0.0, 1.25 * float(curve.x[-1]), 1.25 * hi)
    solid = np.geomspace(lo, hi, 2 * GAIN_POINTS // 3)
    x = np.concatenate([solid, np.geomspace(hi, last, GAIN_POINTS // 3 + 1)[1:]])
    rows = [gain_at(fit, float(c)) for c in x]
    value, low, high = (np.array(column) for column in zip(*rows, strict=True))
    split = len(solid)
    return {
        "solid": {"x": x[:split].tolist(), "y": _positive(value[:split])},
        "dashed": {"x": x[split - 1 :].tolist(), "y": _positive(value[split - 1 :])},
        "band": {"x": x.tolist(), "lo": _positive(low), "hi": _positive(high)},
        "now": float(curve.x[-1]),
        "unit": UNITS[axis.key],
        "sentence": _gain_sentence(fit, curve, question, axis),
    }


def gain_at(fit: "scaling.Fit", compute: float) -> tuple[float, float, float]:
    """(gain per unit of compute, lo, hi) of the fitted curve at `compute` > 0."""
    start, end = compute / math.sqrt(GAIN_STEP), compute * math.sqrt(GAIN_STEP)
    before, after = fit.predict([start, end])
    value, (lo, hi) = float(after - before), fit.change_interval(start, end)
    lo, hi = min(lo, value), max(hi, value)
    return value / (end - start), lo / (end - start), hi / (end - start)


def _gain_sentence(fit: "scaling.Fit", curve: Curve, question: Question, axis: Axis) -> str:
    at = float(curve.x[-1])
    value, lo, hi = gain_at(fit, at)
    interval = words.between((lo, hi), question.level, _small)
    where = f"At {axis.short_text(at)}"
    return f"{where} one more {UNITS[axis.key]} adds {_small(value)} to the pass rate ({interval})."


def _small(value: float) -> str:
    """Two significant digits: "0.0021", "1.2e-17"."""
    return f"{value:.2g}"


def nullable(values: np.ndarray) -> list[float | None]:
    """For JSON: None where a number is not finite."""
    return [float(v) if np.isfinite(v) else None for v in values]


def _positive(values: np.ndarray) -> list[float | None]:
    """None where a log axis has no place for it."""
    return [float(v) if v > 0 else None for v in values]
