"""From stored points to a `scaling.Fit`: which points a question means, and one cached fit for each answer.

Fits of many curves, and for charts of many runs some points of each that stay where they are.

Stored forecasts: what the averaged forms (`scaling.course`) say from the very points of a stored fit.

Worked out once, when the fit is stored, and kept in `Fit.forecast`; a page reads it. It is there also where Eq. 1 could
not be fitted, and says so itself where no saturating curve describes the points.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import scaling
from scaling.course import Course, course_of
from scaling.points import rising
from webapp.record.runs.models import Run
from webapp.record.runs.points import arrays_of
from webapp.record.runs.sampling import newest
from webapp.science.curves.words import AXES, DEFAULT_AXIS, DEFAULT_LEVEL, DEFAULT_METRIC, Payload, few

log = logging.getLogger(__name__)
CRASHED = "The fit crashed. That is a fault of this server, not of the run; the server has logged it."
SAMPLED_POINTS = 32  # about so many of each run, where many runs share a chart
DIGITS = 7
DRAWN_POINTS = 180


@dataclass(frozen=True)
class Question:
    """What to fit and how: axis, metric, form, level, and the window [window_lo, cutoff] in units of the axis."""

    x: str = DEFAULT_AXIS
    cutoff: float | None = None
    window_lo: float | None = None
    level: float = DEFAULT_LEVEL
    metric: str = DEFAULT_METRIC
    form: str = "sigmoid"
    robust: bool = False  # leave out evaluations that crashed (`scaling.outliers`)


WHOLE = Question()


@dataclass(frozen=True)
class Curve:
    """A run's evaluations on one axis, ascending: x > 0 [n], y [n], se [n] (NaN unknown), step [n], hours [n]; of
    hours and tokens NaN is unknown.

    `start` holds the pass rates measured before the first update, at zero compute; `unknown` the steps of evaluations
    that are not here, because nobody knows their compute on this axis.
    """

    x: np.ndarray
    y: np.ndarray
    se: np.ndarray
    step: np.ndarray
    hours: np.ndarray
    start: tuple[float, ...]
    start_se: float | None
    tokens: np.ndarray
    unknown: tuple[int, ...] = ()

    @property
    def work(self) -> np.ndarray | None:
        """Tokens, where x is device-hours and all are known: hours are not always worth the same."""
        return rising(self.tokens) if np.array_equal(self.x, self.hours) else None

    def only(self, chosen: np.ndarray) -> "Curve":
        """The points of a mask [n]."""
        columns = {name: getattr(self, name)[chosen] for name in ("x", "y", "se", "step", "hours", "tokens")}
        return replace(self, **columns)

    def inside(self, question: Question) -> np.ndarray:
        """Mask [n] of the points that the question's window holds."""
        lo = -np.inf if question.window_lo is None else question.window_lo
        hi = np.inf if question.cutoff is None else question.cutoff
        return (self.x >= lo) & (self.x <= hi)

    def after(self, question: Question) -> np.ndarray:
        """Mask [n] of the points past the cutoff: what the fit did not know."""
        return self.x > question.cutoff if question.cutoff is not None else np.zeros(len(self.x), bool)

    @property
    def newer_unknown(self) -> int:
        """How many of the unknown came after all that is here."""
        newest = max(self.step, default=-1)
        return sum(step > newest for step in self.unknown)


def curve_of(run: Run, x: str = DEFAULT_AXIS, metric: str = DEFAULT_METRIC) -> Curve:
    """Every effective (not superseded), unsampled point of the run's series; points without that x are only counted."""
    return _curves([run.pk], x, metric).get(run.pk) or curve_from((), (), (), (), (), ())


def curves_of(
    run_ids: Iterable[str], x: str = DEFAULT_AXIS, metric: str = DEFAULT_METRIC
) -> dict[str, Curve]:
    """Run -> its curve, for many runs in one query; without the runs that have no point with this x."""
    found = _curves(run_ids, x, metric)
    return {run_id: curve for run_id, curve in found.items() if len(curve.x) or curve.start}


def _curves(run_ids: Iterable[str], x: str, metric: str) -> dict[str, Curve]:
    columns = (AXES[x].key, "step", "device_hours", "value", "stderr", "tokens")
    return {run_id: curve_from(*found) for run_id, found in arrays_of(run_ids, metric, columns).items()}


def curve_from(
    x: ArrayLike,
    step: ArrayLike,
    hours: ArrayLike,
    value: ArrayLike,
    se: ArrayLike,
    tokens: ArrayLike,
) -> Curve:
    """The curve of columns [n] in the order of training; what is not known is NaN or None."""
    x, hours, value, se, tokens = (np.asarray(column, float) for column in (x, hours, value, se, tokens))
    step = np.asarray(step, int)
    order = np.argsort(x, kind="stable")
    start, later = order[x[order] <= 0], order[x[order] > 0]
    return Curve(
        x=x[later],
        y=value[later],
        se=se[later],
        step=step[later],
        hours=hours[later],
        start=tuple(value[start].tolist()),
        start_se=None if not len(start) or np.isnan(se[start[0]]) else float(se[start[0]]),
        unknown=tuple(step[np.isnan(x)].tolist()),
        tokens=tokens[later],
    )


def fit_curve(curve: Curve, question: Question) -> "scaling.Fit":
    """Fit the points inside the question's window; R0 is informed by the evaluations before the first update.

    Raises scaling.InputError where the window holds too few points or a value that cannot be fitted.
    """
    inside = curve.inside(question)
    return _cached_fit(
        tuple(curve.x[inside]),
        tuple(curve.y[inside]),
        curve.start,
        question.form,
        question.level,
        question.robust,
        None if (work := curve.work) is None else tuple(work[inside]),
    )


@lru_cache(maxsize=512)
def _cached_fit(
    x: tuple, y: tuple, start: tuple, form: str, level: float, robust: bool, work: tuple | None
) -> "scaling.Fit":
    observed = start or None
    return scaling.fit(x, y, form=form, level=level, r0_observed=observed, robust=robust, work=work)


def try_fit(curve: Curve, question: Question) -> "tuple[scaling.Fit | None, str]":
    """The fit, or None and the reason in words; a fit that crashes is logged and said, and stops nothing else."""
    try:
        return fit_curve(curve, question), ""
    except scaling.InputError as error:
        return None, f"No fit yet. {error.reason[:1].upper()}{error.reason[1:]}."
    except Exception:
        log.exception("the fit of %s crashed", question)
        return None, CRASHED


@lru_cache(maxsize=128)
def remembered(analysis: Callable[..., Any], x: tuple, y: tuple, **options: Any) -> Any:
    """What the analysis says of compute x [n] and pass rates y [n] with these options, made once."""
    return analysis(np.array(x), np.array(y), **options)


def crash_note(names: Sequence[str], why: str = "Left out") -> str:
    """What these are missing from, and why; empty where none is."""
    if not names:
        return ""
    whose = "Its fit" if len(names) == 1 else "Their fits"
    return f"{why}: {few(names)}. {whose} crashed, which is a fault of this server that it has logged."


def or_problem(make: Callable[[], dict[str, Any]], question: Question) -> dict[str, Any]:
    """What `make` says, with "problem" empty; or, with no rows, why it cannot: too few points, or a crash, logged."""
    try:
        return {"problem": "", **make()}
    except scaling.InputError as error:
        return {"problem": f"{error.reason[0].upper()}{error.reason[1:]}.", "rows": []}
    except Exception:
        log.exception("an analysis of %s crashed", question)
        return {"problem": CRASHED, "rows": []}


def outliers(curve: Curve, question: Question, fit: "scaling.Fit | None") -> np.ndarray:
    """Mask [n] of the points inside the window that a robust fit left out."""
    if fit is None or not fit.left_out or fit.data is None:
        return np.zeros(len(curve.x), bool)
    kept = set(zip(fit.data.compute.tolist(), fit.data.reward.tolist(), strict=True))
    points = zip(curve.x.tolist(), curve.y.tolist(), strict=True)
    return curve.inside(question) & np.array([point not in kept for point in points], bool)


def fitted_points(curve: Curve, question: Question) -> np.ndarray:
    """Mask [n] of the points that the question's fit uses: inside the window, without what a robust fit leaves out."""
    inside = curve.inside(question)
    if not question.robust or inside.sum() < scaling.MIN_POINTS:
        return inside
    return inside & ~outliers(curve, question, fit_curve(curve, question))


def fits_of(
    curves: dict[str, Curve], question: Question | None = None
) -> "tuple[dict[str, scaling.Fit], list[str]]":
    """Run -> the fit of its whole curve, as its own page shows it, without runs of too few points; and the runs whose
    fit crashed, which whoever shows the others says (`webapp.science.curves.fitting.crash_note`)."""
    tried = {run_id: try_fit(curve, question or Question()) for run_id, curve in curves.items()}
    found = {run_id: fit for run_id, (fit, _) in tried.items() if fit is not None}
    return found, [run_id for run_id, (_, problem) in tried.items() if problem == CRASHED]


def used_hours(curve: Curve | None) -> float:
    """Device-hours at the newest evaluation."""
    return float(curve.hours[-1]) if curve is not None and len(curve.hours) and curve.hours[-1] > 0 else 0.0


@dataclass(frozen=True)
class Thinned:
    """Some points of a run, x ascending [n], y [n], and how many there are in all."""

    x: np.ndarray
    y: np.ndarray
    total: int


def thinned_curves(run_ids: Iterable[str], x: str = DEFAULT_AXIS) -> dict[str, Thinned]:
    """Run -> at most about SAMPLED_POINTS of its effective points; more data thins them out but never moves one.

    For charts of many runs only: fits, tables and downloads read every point. KeyError for an axis that is none.
    """
    key = AXES[x].key  # one of four names, so that it can stand in the statement
    found = arrays_of(run_ids, DEFAULT_METRIC, ("step", key, "value"), f"p.{key} > 0")
    return {run_id: _thinned(*columns) for run_id, columns in found.items()}


def _thinned(step: np.ndarray, x: np.ndarray, value: np.ndarray) -> Thinned:
    kept = newest(step, SAMPLED_POINTS)
    kept = kept[np.argsort(x[kept], kind="stable")]
    return Thinned(x[kept], value[kept], len(step))


def forecast_of(fit: "scaling.Fit") -> Payload | None:
    """What is stored beside a fit, JSON-ready: {"status", "message", "level", "seen", "ceiling", "interval", "reached",
    "compute", "value", "lo", "hi"}. None where the forecast crashed, which is logged."""
    try:
        return _forecast_of(fit)
    except Exception:  # the fit is stored and shown all the same
        log.exception("the forecast from %d points crashed", fit.n)
        return None


@lru_cache(maxsize=512)
def _forecast_of(fit: "scaling.Fit") -> Payload | None:  # a fit is one object for one question
    return None if fit.data is None else stored(course_of(fit))


def stored(course: Course) -> Payload:
    """The payload that `read` reads."""
    names = ("compute", "value", "lo", "hi")
    return {
        "status": course.status,
        "message": course.message,
        "level": course.level,
        "seen": course.seen,
        "ceiling": course.ceiling,
        "interval": None if course.interval is None else list(course.interval),
        "reached": course.reached,  # for the list of runs, which reads no arrays
        **{name: short(getattr(course, name)) or None for name in names},
    }


def read(stored: Payload | None) -> Course | None:
    """The stored payload as arrays; None where nothing is stored."""
    if not stored:
        return None
    compute, value, lo, hi = (
        np.asarray(stored[name] or (), float) for name in ("compute", "value", "lo", "hi")
    )
    interval = tuple(stored["interval"]) if stored["interval"] else None
    return Course(
        stored["status"], stored["message"], stored["level"], stored["ceiling"], interval,
        compute, value, lo, hi, stored["seen"],
    )  # fmt: skip


def drawn(course: Course | None, first: float, last: float) -> Payload | None:
    """For a chart: solid from `first` over what was seen, dashed to `last`, and the band over both, as far as the
    forecast is kept; None where there is none."""
    if course is None or not len(course.compute) or course.seen is None:
        return None
    first, last = max(first, float(course.compute[0])), min(last, float(course.compute[-1]))
    solid = np.geomspace(first, course.seen, 2 * DRAWN_POINTS // 3)
    dashed = np.geomspace(course.seen, last, DRAWN_POINTS // 3)
    grid = np.concatenate([solid, dashed[1:]])
    value, lo, hi = course.at(grid)
    split = len(solid)
    return {
        "solid": {"x": solid.tolist(), "y": value[:split].tolist()},
        "dashed": {"x": dashed.tolist(), "y": value[split - 1 :].tolist()},
        "band": {"x": grid.tolist(), "lo": lo.tolist(), "hi": hi.tolist()},
    }


def short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
