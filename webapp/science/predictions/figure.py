"""The chart of a prediction as one JSON-ready payload: frozen curve, what was known, what came, the claim, the outcome.

Pure functions of rows and curves: nothing is read from the database here.

The frozen forecast of a prediction as a curve with its band: from what was copied then, and nothing newer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import scaling
from scaling.course import Course
from scaling.curve import curve as curve_at
from webapp.science.curves import answers, fitting, words
from webapp.science.curves.ahead import ceiling, for_evaluations
from webapp.science.curves.fitting import Curve, Question, try_fit
from webapp.science.curves.run.chart_views import nullable
from webapp.science.curves.words import AXES, Axis, Payload
from webapp.science.predictions.claims import Claim, Statement, claim_of, outcome_words
from webapp.science.predictions.models import Outcome, Prediction

ROOM = 1.12  # the chart goes on a little beyond the target
CHANGED = (
    "Evaluations up to the cutoff have changed since this was frozen: a resumed attempt superseded some of them. The "
    "curve and its band are as they were frozen; the points are those that count now."
)
PARAMETERS = answers.MEANINGS | {"A": "ceiling of Eq. 1"}


@dataclass(frozen=True)
class Frozen:
    """A fit as copied into a prediction: {"params", "forecast", "noise_sd", "fitted_lo", "fitted_hi", ...}. Claims from
    before forecasts were frozen have the curve and band of Eq. 1 in its place."""

    copied: Payload

    @cached_property
    def forecast(self) -> Course | None:
        copied = self.copied
        return fitting.read(copied["forecast"]) if "forecast" in copied else _of_eq_1(copied)

    def drawn(self, last: float) -> Payload:
        """Solid over the fitted window, dashed to `last`, and the band over both; None for each without a curve."""
        if (shown := fitting.drawn(self.forecast, self.copied["fitted_lo"], last)) is None:
            return {"window": None, "solid": None, "dashed": None, "band": None}
        return {"window": [self.copied["fitted_lo"], self.copied["fitted_hi"]], **shown}


def _of_eq_1(copied: Payload) -> Course | None:
    """The curve of a fit with its band, at the computes at which the band was kept."""
    kept, p = answers.read(copied.get("outlook")), copied.get("params")
    if kept is None or not p:
        return None
    value = curve_at(kept.compute, r0=p["R0"], a=p["A"], b=p["B"], c_mid=p["C_mid"], form=copied["form"])
    level, status, seen = float(copied.get("level", 0.9)), copied["status"], copied["fitted_hi"]
    return Course(status, "", level, None, None, kept.compute, np.asarray(value), kept.lo, kept.hi, seen)


def question_of(prediction: Prediction) -> Question:
    """The question that was frozen."""
    return Question(
        prediction.x, prediction.cutoff, prediction.window_lo, float(prediction.frozen.get("level", 0.9)),
        prediction.metric, prediction.frozen["form"], bool(prediction.frozen.get("question", {}).get("robust")),
    )  # fmt: skip


@dataclass(frozen=True)
class Known:
    """What is stored now of the points that were known at freezing: the curve up to the cutoff, and its fit.

    fit: None where the points have changed since, or are gone; only then may it differ from what was frozen.
    """

    curve: Curve
    question: Question
    fit: "scaling.Fit | None"

    @property
    def intact(self) -> bool:
        return self.fit is not None


def known_of(prediction: Prediction, curve: Curve) -> Known:
    """`curve` holds every effective point of the prediction's run, metric and axis."""
    question = question_of(prediction)
    fit, _ = try_fit(curve, question)
    if fit is not None and fit.digest != prediction.data_digest:
        fit = None
    return Known(curve.only(curve.x <= prediction.cutoff), question, fit)


@dataclass(frozen=True)
class Anchor:
    """A thread of comments that is tied to a point: its number, place, and whether it is resolved."""

    thread: int
    number: int
    x: float
    y: float
    resolved: bool


def prediction_figure(
    prediction: Prediction, curve: Curve, outcomes: Sequence[Outcome] = (), anchors: Sequence[Anchor] = ()
) -> Payload:
    """Everything that is drawn. `curve`: every effective, unsampled point of the prediction's run."""
    axis, frozen, claim = AXES[prediction.x], Frozen(prediction.frozen), claim_of(prediction)
    known = known_of(prediction, curve)
    last = reach(claim.target, curve)
    residuals = residuals_of(prediction, curve, frozen)
    rival = Frozen(prediction.rival_frozen) if prediction.rival_frozen else None
    return {
        "x": axis_payload(axis),
        "points": points_of(curve, prediction.window_lo, prediction.cutoff, prediction.known_until),
        "start": {"y": float(np.mean(curve.start)), "se": curve.start_se} if curve.start else None,
        "fit": frozen.drawn(last),
        "level": known.question.level,
        "rival": {"label": claim.passed, **rival.drawn(last)} if rival else None,
        "known_until": prediction.known_until,
        "claim": claim_payload(claim),
        "outcomes": [outcome_payload(one) for one in outcomes],
        "residuals": residuals,
        "after_sentence": after_sentence(residuals, known.question.level),
        "anchors": [vars(anchor) for anchor in anchors],
        "unknown": answers.unknown(curve, axis),
        "changed": "" if known.intact else CHANGED,
    }


def axis_payload(axis: Axis) -> Payload:
    return {"key": axis.key, "label": axis.label, "short": axis.short}


def reach(target: float, curve: Curve) -> float:
    """Where the chart ends: past the target and past every point."""
    return ROOM * max(target, float(curve.x[-1]) if len(curve.x) else 0.0)


def roles(x: np.ndarray, window_lo: float | None, cutoff: float, known_until: float) -> np.ndarray:
    """[n] of what each point was at freezing: fitted, known but outside the window ("excluded"), or yet to come."""
    outside = x > cutoff if window_lo is None else (x > cutoff) | (x < window_lo)
    return np.where(x > known_until, "after", np.where(outside, "excluded", "fitted"))


def points_of(curve: Curve, window_lo: float | None, cutoff: float, known_until: float) -> Payload:
    """Every point with its role."""
    return {
        "x": curve.x.tolist(),
        "y": curve.y.tolist(),
        "se": nullable(curve.se),
        "step": curve.step.tolist(),
        "role": roles(curve.x, window_lo, cutoff, known_until).tolist(),
    }


def claim_payload(claim: Claim) -> Payload:
    """The mark at the target: value and interval, or, of a passing, the target alone."""
    return {
        "statement": claim.statement,
        "x": claim.target,
        "value": claim.value,
        "lo": claim.lo,
        "hi": claim.hi,
        "text": f"{claim.number}, {claim.interval}"
        if claim.statement != Statement.PASSES
        else f"passes {claim.passed}: {claim.number}",
    }


def outcome_payload(outcome: Outcome) -> Payload:
    """What a run came to at the target; `good`: inside the interval, or, of a passing, that it happened."""
    return {
        "run": outcome.run_id,
        "label": outcome.run.name,
        "actual": outcome.actual,
        "lo": outcome.actual_lo,
        "hi": outcome.actual_hi,
        "good": outcome.happened if outcome.inside is None else outcome.inside,
        "text": outcome_words(outcome),
    }


def residuals_of(prediction: Prediction, curve: Curve, frozen: Frozen) -> Payload | None:
    """Every point of the window and after it minus the frozen curve, with the band of a single evaluation around zero;
    as far as the curve was kept. None without a curve."""
    lo = prediction.window_lo
    shown = curve.only(curve.x >= lo) if lo is not None else curve
    if frozen.forecast is None or not len(shown.x):
        return None
    value, lows, highs = for_evaluations(frozen.forecast, shown.x, prediction.frozen.get("noise_sd") or 0.0)
    return {
        "x": shown.x.tolist(),
        "y": nullable(shown.y - value),
        "lo": nullable(lows - value),
        "hi": nullable(highs - value),
        "role": roles(shown.x, lo, prediction.cutoff, prediction.known_until).tolist(),
    }


def after_sentence(residuals: Payload | None, level: float) -> str:
    """How what came since compares with what was frozen."""
    if residuals is None:
        return "Nothing was forecast to compare with."
    if not (came := [i for i, role in enumerate(residuals["role"]) if role == "after"]):
        return "Nothing has come since it was frozen."
    judged = [i for i in came if residuals["y"][i] is not None]
    said = f"{words.count(len(came), 'evaluation')} since it was frozen"
    if not judged:
        return f"{said}, beyond all that was forecast."
    inside = sum(residuals["lo"][i] <= residuals["y"][i] <= residuals["hi"][i] for i in judged)
    mean = words.signed(sum(residuals["y"][i] for i in judged) / len(judged))
    return f"{said}, {inside} inside the {words.percent(level)} band; mean error {mean}."


def parameter_rows(prediction: Prediction) -> list[dict[str, str]]:
    """The frozen forecast ceiling and the parameters of Eq. 1 with their intervals, in words."""
    frozen, forecast = prediction.frozen, Frozen(prediction.frozen).forecast
    params, intervals = frozen.get("params") or {}, frozen.get("intervals") or {}
    rows = [
        {"name": name[0], "sub": name[1:].removeprefix("_"), "meaning": meaning}
        | _said(name, params[name], intervals.get(name), known=frozen.get("status") == "ok")
        for name, meaning in PARAMETERS.items()
        if name in params
    ]
    if forecast is None or forecast.interval is None:
        return rows
    value, interval = ceiling(forecast)["text"], words.span(forecast.interval)
    meaning = "for compute without bound"
    return [
        {"name": "Forecast ceiling", "sub": "", "meaning": meaning, "value": value, "interval": interval},
        *rows,
    ]


def _said(name: str, value: float, ends: Any, *, known: bool) -> dict[str, str]:
    lo, hi = ends or (None, None)
    said = answers.shown(name, value, (lo, hi), known=known)
    return {"value": said["value_text"], "interval": said["interval_text"]}
