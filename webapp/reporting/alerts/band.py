"""When the actual left the band: evaluations against forecasts that had not seen them. Pure functions on arrays.

A run is looked at again with every evaluation, so a fixed 90 % band would be left by chance in every long run. So
the k-th window of evaluations that is judged may be left by chance with probability at most ALPHA * 6 / (pi k)^2, and
these add up to ALPHA however long a run gets (a union bound: it needs no independence between windows, which share
evaluations and fits). All evaluations of a window must lie on the same side; the chance of that is at most that of
its last one alone, which is what is held to the bound, so errors that the window shares do not break it either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from scaling.course import Course, normal_quantile
from webapp.science.curves.models import Fit

ALPHA = 0.05  # of runs that follow their forecasts, at most this share ever fires
PARAMETERS = 4


@dataclass(frozen=True)
class Known:
    """A forecast that had seen all up to `known_to`, and the noise of one evaluation (standard deviation, `dof` degrees
    of freedom)."""

    forecast: Course
    known_to: float
    noise: float
    dof: int


@dataclass(frozen=True)
class Departure:
    """Indices of the first, the counted (`in_a_row`-th) and the last evaluation outside; what had been expected at the
    counted one, by the fit of the points up to `known_to`."""

    first: int
    counted: int
    last: int
    below: bool
    expected: float
    known_to: float


def known_from(row: Fit, forecast: Course | None) -> Known | None:
    """A fit's forecast for comparing; None where there is none, or too few points to know the noise around the fit."""
    dof = row.n - PARAMETERS
    if forecast is None or forecast.ceiling is None or row.sse is None or row.fitted_hi is None or dof < 1:
        return None
    return Known(forecast, row.fitted_hi, float(np.sqrt(row.sse / dof)), dof)


def departures(
    x: np.ndarray, y: np.ndarray, stderr: np.ndarray, known: Sequence[Known], in_a_row: int
) -> list[Departure]:
    """Stretches of at least `in_a_row` evaluations outside, on one side; x ascending, y, stderr (0: unknown) [n].

    Each window of `in_a_row` evaluations is compared with the newest forecast from points that all lie before it.
    """
    sides = np.zeros(len(x), int)  # -1 or 1 where the window that ends here is outside
    expected, known_to, judged = np.full(len(x), np.nan), np.full(len(x), np.nan), 0
    for end in range(in_a_row - 1, len(x)):
        window = slice(end - in_a_row + 1, end + 1)
        before = _newest_before(known, x[window.start])
        if before is None:
            continue
        deviation, value = _deviation(before, x[window], y[window], stderr[window])
        if not np.isfinite(deviation).all():
            continue
        judged += 1
        limit = -float(stdtrit(before.dof, ALPHA * 6 / (np.pi * judged) ** 2 / 2))
        if (deviation > limit).all() or (deviation < -limit).all():
            sides[end], expected[end], known_to[end] = np.sign(deviation[-1]), value[-1], before.known_to
    return [
        Departure(
            first - in_a_row + 1,
            first,
            last,
            bool(sides[first] < 0),
            float(expected[first]),
            float(known_to[first]),
        )
        for first, last in _stretches(sides)
    ]


def _newest_before(known: Sequence[Known], x: float) -> Known | None:
    """Of those that had seen nothing from x on, the one that had seen most; of equals the newest."""
    before = [one for one in known if one.known_to < x]
    return max(enumerate(before), key=lambda item: (item[1].known_to, item[0]))[1] if before else None


def _deviation(
    known: Known, x: np.ndarray, y: np.ndarray, stderr: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How many standard errors each evaluation lies from the forecast, and the forecast; NaN where it does not go.

    The error has two parts: of the mean pass rate (by the half width on that side), and of one evaluation.
    """
    value, lo, hi = known.forecast.at(x)
    reach = np.where(y < value, value - lo, hi - value) / normal_quantile(known.forecast.level)
    spread = np.hypot(reach, np.maximum(known.noise, stderr))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread > 0, (y - value) / spread, np.nan), value


def _stretches(sides: np.ndarray) -> list[tuple[int, int]]:
    """(first, last) index of each unbroken stretch on one side."""
    found: list[tuple[int, int]] = []
    for index in np.flatnonzero(sides):
        if found and found[-1][1] == index - 1 and sides[index] == sides[index - 1]:
            found[-1] = (found[-1][0], int(index))
        else:
            found.append((int(index), int(index)))
    return found
