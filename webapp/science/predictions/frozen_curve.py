"""The frozen forecast of a prediction as a curve with its band: from what was copied then, and nothing newer."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import scaling
from scaling.course import Course
from scaling.curve import curve as curve_at
from webapp.science.curves import forecasts, outlook
from webapp.science.curves.fitting import Curve, Question, try_fit
from webapp.science.predictions.models import Prediction

Payload = dict[str, Any]


@dataclass(frozen=True)
class Frozen:
    """A fit as copied into a prediction: {"params", "forecast", "noise_sd", "fitted_lo", "fitted_hi", ...}. Claims from
    before forecasts were frozen have the curve and band of Eq. 1 in its place."""

    copied: Payload

    @cached_property
    def forecast(self) -> Course | None:
        copied = self.copied
        return forecasts.read(copied["forecast"]) if "forecast" in copied else _of_eq_1(copied)

    def drawn(self, last: float) -> Payload:
        """Solid over the fitted window, dashed to `last`, and the band over both; None for each without a curve."""
        if (shown := forecasts.drawn(self.forecast, self.copied["fitted_lo"], last)) is None:
            return {"window": None, "solid": None, "dashed": None, "band": None}
        return {"window": [self.copied["fitted_lo"], self.copied["fitted_hi"]], **shown}


def _of_eq_1(copied: Payload) -> Course | None:
    """The curve of a fit with its band, at the computes at which the band was kept."""
    kept, p = outlook.read(copied.get("outlook")), copied.get("params")
    if kept is None or not p:
        return None
    value = curve_at(kept.compute, r0=p["R0"], a=p["A"], b=p["B"], c_mid=p["C_mid"], form=copied["form"])
    level, status, seen = float(copied.get("level", 0.9)), copied["status"], copied["fitted_hi"]
    return Course(status, "", level, None, None, kept.compute, np.asarray(value), kept.lo, kept.hi, seen)


def nullable(values: np.ndarray) -> list[float | None]:
    """For JSON: None where a number is not finite."""
    return [float(v) if np.isfinite(v) else None for v in values]


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
