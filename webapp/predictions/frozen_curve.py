"""The frozen fit of a prediction as a curve with its band: from what was copied then, and nothing newer."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import scaling
from scaling.curve import curve as curve_at
from webapp.curves.fitting import Curve, Question, try_fit
from webapp.curves.outlook import Outlook, read
from webapp.predictions.models import Prediction

Payload = dict[str, Any]
BAND_POINTS = 90


@dataclass(frozen=True)
class Frozen:
    """A fit as copied into a prediction: {"form", "params", "intervals", "outlook", "fitted_lo", "fitted_hi", ...}."""

    copied: Payload

    @property
    def params(self) -> dict[str, float] | None:
        return self.copied.get("params")

    @property
    def window(self) -> tuple[float, float]:
        return self.copied["fitted_lo"], self.copied["fitted_hi"]

    @cached_property
    def outlook(self) -> Outlook | None:
        return read(self.copied.get("outlook"))

    def values(self, at: np.ndarray) -> np.ndarray:
        """Pass rates of the frozen curve at computes [n]; NaN without parameters."""
        if not self.params:
            return np.full(len(at), np.nan)
        p = self.params
        found = curve_at(at, r0=p["R0"], a=p["A"], b=p["B"], c_mid=p["C_mid"], form=self.copied["form"])
        return np.asarray(found)

    def band(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The frozen interval of the curve at computes [n]; NaN where it was not kept."""
        if self.outlook is None or not self.params:
            nothing = np.full(len(at), np.nan)
            return nothing, nothing
        return self.outlook.band(at, self.values)

    def drawn(self, last: float) -> Payload:
        """Solid over the fitted window, dashed to `last`, and the band over both; None for each without a curve."""
        if not self.params:
            return {"window": None, "solid": None, "dashed": None, "band": None}
        lo, hi = self.window
        solid = np.geomspace(lo, hi, BAND_POINTS)
        dashed = np.geomspace(hi, max(last, 1.02 * hi), BAND_POINTS // 2)
        grid = np.concatenate([solid, dashed[1:]])
        band_lo, band_hi = self.band(grid)
        return {
            "window": [lo, hi],
            "solid": _line(solid, self.values(solid)),
            "dashed": _line(dashed, self.values(dashed)),
            "band": {"x": grid.tolist(), "lo": nullable(band_lo), "hi": nullable(band_hi)},
        }


def _line(x: np.ndarray, y: np.ndarray) -> Payload:
    return {"x": x.tolist(), "y": nullable(y)}


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
