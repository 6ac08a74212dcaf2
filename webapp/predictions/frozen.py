"""What a claim rests on: the fit as it is copied into the prediction, and what that fit itself says at the target."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import scaling
from scaling import versus
from webapp.curves import answers
from webapp.curves.fitting import Curve, Question
from webapp.curves.outlook import outlook_of
from webapp.predictions.models import Prediction

Statement = Prediction.Statement
Payload = dict[str, Any]
NOT_IDENTIFIED = (
    "The ceiling is not identified by these points: give a value and an interval of your own, with reasons."
)
MOST_PROBABLE = 0.999  # draws of the curves tell probabilities to about 0.01: none of them means never


@dataclass(frozen=True)
class Proposal:
    """What the fit says of a statement, to begin with. None where it says nothing; `problem` tells why.

    horizon: target / newest stored evaluation.
    """

    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    probability: float | None = None
    horizon: float | None = None
    problem: str = ""


def frozen_of(fit: "scaling.Fit", question: Question, own: Proposal, known: Payload) -> Payload:
    """The fit as JSON: form, method, level, status, message, params, intervals, outlook, n, fitted_lo, fitted_hi, sse,
    r2, noise_sd, autocorrelation, left_out, question; `own`: what it said of the statement; and what was known then."""
    return {
        "form": fit.form,
        "method": fit.method,
        "level": fit.level,
        "status": fit.status,
        "message": fit.message,
        "params": fit.params,
        "intervals": answers.shown_intervals(fit),
        "outlook": outlook_of(fit),
        "n": fit.n,
        "fitted_lo": fit.window[0],
        "fitted_hi": fit.window[1],
        "sse": fit.sse,
        "r2": fit.r2,
        "noise_sd": _finite(fit.noise_sd),
        "autocorrelation": _finite(fit.autocorrelation),
        "left_out": list(fit.left_out),
        "question": {
            "x": question.x,
            "metric": question.metric,
            "form": question.form,
            "window_lo": question.window_lo,
            "cutoff": question.cutoff,
            "robust": question.robust,
        },
        "own": {"value": own.value, "lo": own.lo, "hi": own.hi, "probability": own.probability},
    } | known


def says(
    fit: "scaling.Fit | None",
    statement: str,
    target: float,
    level: float,
    rival: "scaling.Fit | None" = None,
    horizon: float | None = None,
) -> Proposal:
    """What a fit says of the statement at `target`.

    A pass rate: the curve there, with the interval for one new evaluation (the curve's own and the noise of one
    evaluation), cut to [0, 1]. A ceiling: A with its profile interval, only where it is identified. PASSES: the
    probability that this curve lies above the rival's there (`scaling.versus`).
    """
    if fit is None or fit.params is None:
        reason = fit.message if fit is not None else "too few evaluations"
        return Proposal(horizon=horizon, problem=f"There is no curve to rest on: {reason}.")
    if statement == Statement.CEILING:
        return _ceiling(fit, level, horizon)
    if statement == Statement.PASSES:
        return _passes(fit, rival, target, horizon)
    value = float(np.squeeze(fit.predict(np.array([target]))))
    lo, hi = (float(np.squeeze(end)) for end in fit.predict_interval(np.array([target]), level, kind="new"))
    return Proposal(value, max(0.0, lo), min(1.0, hi), horizon=horizon)


def _ceiling(fit: "scaling.Fit", level: float, horizon: float | None) -> Proposal:
    assert fit.params is not None
    lo, hi = fit.interval("A", level)
    if fit.status != "ok" or lo is None or hi is None:
        return Proposal(horizon=horizon, problem=NOT_IDENTIFIED)
    return Proposal(fit.params["A"], max(0.0, lo), min(1.0, hi), horizon=horizon)


def _passes(
    fit: "scaling.Fit", rival: "scaling.Fit | None", target: float, horizon: float | None
) -> Proposal:
    if rival is None or rival.params is None:
        problem = "The rival has no curve to compare with; give your own probability."
        return Proposal(horizon=horizon, problem=problem)
    chance = versus.probability_above(fit, rival, target)
    bounded = min(max(chance, 1.0 - MOST_PROBABLE), MOST_PROBABLE)
    return Proposal(probability=bounded, horizon=horizon)


def target_hours(curve: Curve, x: str, target: float) -> float | None:
    """The target in device-hours; on other axes in proportion to what the newest evaluation had cost. None: unknown."""
    if x == "device_hours":
        return target
    if not len(curve.x) or not np.isfinite(curve.hours[-1]) or curve.hours[-1] <= 0:
        return None
    return float(target * curve.hours[-1] / curve.x[-1])


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
