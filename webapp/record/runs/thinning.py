"""How charts leave out points: some of every stretch of 2^k steps are kept, k the least for which there is room.

Wider stretches are unions of narrower ones, and k only grows with a series. So a point that is shown was shown at every
earlier time since it was new: more data thins points out, and never moves one. Fits and exports read all points.
"""

from dataclasses import dataclass

import numpy as np

MAX_POINTS = 120
LAST, SMALLEST, LARGEST = 1, 2, 4  # what a point is of its stretch; they add up
ROLES = {LAST: "last", SMALLEST: "min", LARGEST: "max"}
EVERY_POINT = "every point"


@dataclass(frozen=True)
class Choice:
    """Places [m] of the points that are shown, ascending, their roles [m], and the width of a stretch (None: all)."""

    places: np.ndarray
    roles: np.ndarray
    width: int | None

    @property
    def method(self) -> str:
        """How they were chosen, in words."""
        return (
            EVERY_POINT
            if self.width is None
            else f"last value, minimum and maximum of every {self.width} steps"
        )


def stride_for(last_step: int, most: int = MAX_POINTS, first_step: int = 0) -> int:
    """The least power of two that leaves at most `most` stretches of the steps first_step..last_step."""
    k = 0
    while (last_step >> k) - (first_step >> k) + 1 > most:
        k += 1
    return 1 << k


def choose(step: np.ndarray, value: np.ndarray, most: int) -> Choice:
    """Which of the points of a series, in the order of training, are shown: at most `most` (at least 3). step [n] whole
    numbers, value [n]."""
    if len(step) <= most:
        return Choice(np.arange(len(step)), np.zeros(len(step), int), None)
    width = stride_for(int(step.max()), most // 3, int(step.min()))
    roles = _roles(_stretches(step, width), value)
    places = np.flatnonzero(roles)
    return Choice(places, roles[places], width)


def newest(step: np.ndarray, most: int) -> np.ndarray:
    """Places [m], ascending, of the newest point of each stretch; m is at most `most`. step [n] in the order of
    training."""
    width = 1 if len(step) <= most else stride_for(int(step.max()), most, int(step.min()))
    _, from_the_end = np.unique(_stretches(step, width)[::-1], return_index=True)
    return np.sort(len(step) - 1 - from_the_end)


def _stretches(step: np.ndarray, width: int) -> np.ndarray:
    return step >> width.bit_length() - 1  # a width may be 2^63


def _roles(stretch: np.ndarray, value: np.ndarray) -> np.ndarray:
    """What each point [n] is of its stretch [n]; of equal values the earliest is the smallest and the largest."""
    order = np.argsort(stretch, kind="stable")  # steps may come in any order
    stretch, value = stretch[order], value[order]
    starts = np.flatnonzero(np.r_[True, stretch[1:] != stretch[:-1]])
    sizes = np.diff(np.r_[starts, len(stretch)])
    place = np.arange(len(stretch))
    roles = np.zeros(len(stretch), int)
    roles[starts + sizes - 1] |= LAST
    for role, extreme in ((SMALLEST, np.minimum), (LARGEST, np.maximum)):
        is_extreme = value == np.repeat(extreme.reduceat(value, starts), sizes)
        roles[np.minimum.reduceat(np.where(is_extreme, place, len(place)), starts)] |= role
    unsorted = np.empty_like(roles)
    unsorted[order] = roles
    return unsorted
