"""From stored points to a `scaling.Fit`: which points a question means, and one cached fit for each answer."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import scaling
from webapp.curves.axes import DEFAULT_AXIS, DEFAULT_LEVEL, DEFAULT_METRIC
from webapp.runs.models import Run
from webapp.runs.selectors import effective_points


@dataclass(frozen=True)
class Question:
    """What to fit: axis, metric, form, level, and the window [window_lo, cutoff] in units of the axis."""

    x: str = DEFAULT_AXIS
    cutoff: float | None = None
    window_lo: float | None = None
    level: float = DEFAULT_LEVEL
    metric: str = DEFAULT_METRIC
    form: str = "sigmoid"


@dataclass(frozen=True)
class Curve:
    """A run's evaluations on one axis, ascending: x > 0 [n], y [n], se [n] (NaN unknown), step [n], hours [n].

    `start` holds the pass rates measured before the first update, at zero compute.
    """

    x: np.ndarray
    y: np.ndarray
    se: np.ndarray
    step: np.ndarray
    hours: np.ndarray
    start: tuple[float, ...]
    start_se: float | None

    def inside(self, question: Question) -> np.ndarray:
        """Mask [n] of the points that the question's window holds."""
        lo = -np.inf if question.window_lo is None else question.window_lo
        hi = np.inf if question.cutoff is None else question.cutoff
        return (self.x >= lo) & (self.x <= hi)

    def after(self, question: Question) -> np.ndarray:
        """Mask [n] of the points past the cutoff: what the fit did not know."""
        return self.x > question.cutoff if question.cutoff is not None else np.zeros(len(self.x), bool)


def curve_of(run: Run, x: str = DEFAULT_AXIS, metric: str = DEFAULT_METRIC) -> Curve:
    """Every effective (not superseded), unsampled point of the run's series; points without that x are left out."""
    points = [p for p in effective_points(run, metric) if getattr(p, x) is not None]
    points.sort(key=lambda p: getattr(p, x))
    at_zero = [p for p in points if getattr(p, x) <= 0]
    later = [p for p in points if getattr(p, x) > 0]
    return Curve(
        x=np.array([getattr(p, x) for p in later], float),
        y=np.array([p.value for p in later], float),
        se=np.array([np.nan if p.stderr is None else p.stderr for p in later], float),
        step=np.array([p.step for p in later], int),
        hours=np.array([np.nan if p.device_hours is None else p.device_hours for p in later], float),
        start=tuple(p.value for p in at_zero),
        start_se=at_zero[0].stderr if at_zero else None,
    )


def fit_curve(curve: Curve, question: Question) -> "scaling.Fit":
    """Fit the points inside the question's window; R0 is informed by the evaluations before the first update.

    Raises scaling.InputError where the window holds too few points or a value that cannot be fitted.
    """
    inside = curve.inside(question)
    return _cached_fit(
        tuple(curve.x[inside]), tuple(curve.y[inside]), curve.start, question.form, question.level
    )


@lru_cache(maxsize=512)
def _cached_fit(x: tuple, y: tuple, start: tuple, form: str, level: float) -> "scaling.Fit":
    return scaling.fit(np.array(x), np.array(y), form=form, level=level, r0_observed=start or None)
