"""Stored forecasts: what the averaged forms (`scaling.course`) say from the very points of a stored fit.

Worked out once, when the fit is stored, and kept in `Fit.forecast`; a page reads it. It is there also where Eq. 1 could
not be fitted, and says so itself where no saturating curve describes the points.
"""

import logging
from functools import lru_cache
from typing import Any

import numpy as np

import scaling
from scaling.course import Course, course_of

log = logging.getLogger(__name__)
Payload = dict[str, Any]
DIGITS = 7
DRAWN_POINTS = 180


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
