"""A run's forecast over compute: what comparisons, plans and pages read, made once from the points of a fit."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from scaling.curve import Array
from scaling.extrapolate import MAX_CEILING_WIDTH, extrapolate, not_known
from scaling.models import Fit

NODES = 40
REACH = (0.25, 20.0)  # kept from a quarter of the first compute used to twenty times the last
MULTIPLES = (2, 4, 10)  # of the compute seen
FULL_FROM = 1.25  # times the compute known: the nearest that the record of forecasts is about


@dataclass(frozen=True)
class Course:
    """At `compute` [n], ascending: `value` (median), and the interval [lo, hi] of `level` of the mean pass rate; empty
    where `status` is "failed". `seen`: the last compute used.

    ceiling, interval: for compute without bound; None where failed. status: "ok", "not_identified" (the tail is not
    known yet) or "failed"; message: why, "" where ok. widening: what the half widths were multiplied by.
    """

    status: str
    message: str
    level: float
    ceiling: float | None
    interval: tuple[float, float] | None
    compute: Array
    value: Array
    lo: Array
    hi: Array
    seen: float | None
    widening: float = 1.0

    @property
    def known(self) -> bool:
        """Whether the ceiling is pinned: its interval is narrow enough to be called known."""
        return self.status == "ok"

    def at(self, compute: Array) -> tuple[Array, Array, Array]:
        """(value, lo, hi) at computes [m], interpolated in log compute; NaN outside what is kept, and where failed."""
        where = np.log(np.asarray(compute, float))
        if not len(self.compute):
            nothing = np.full(len(where), math.nan)
            return nothing, nothing, nothing
        nodes = np.log(self.compute)
        outside = (where < nodes[0] - 1e-6) | (where > nodes[-1] + 1e-6)
        columns = (
            np.where(outside, math.nan, np.interp(where, nodes, y)) for y in (self.value, self.lo, self.hi)
        )
        return tuple(columns)  # type: ignore[return-value]

    def value_at(self, compute: float) -> tuple[float, float, float]:
        """(value, lo, hi) at one compute; NaN outside what is kept."""
        value, lo, hi = (float(column[0]) for column in self.at(np.array([compute])))
        return value, lo, hi

    def multiples(self) -> list[tuple[int, float, float, float, float]]:
        """(times, compute, value, lo, hi) at each of MULTIPLES of the compute seen; empty where failed."""
        if self.seen is None or not len(self.compute):
            return []
        at = np.array(MULTIPLES) * self.seen
        columns = (column.tolist() for column in (at, *self.at(at)))
        return list(zip(MULTIPLES, *columns, strict=True))

    def on_axis(self, unit: float) -> "Course":
        """The same on another axis, of which one unit is `unit` of this one's."""
        seen = None if self.seen is None else self.seen / unit
        return replace(self, compute=self.compute / unit, seen=seen)

    @property
    def reached(self) -> float | None:
        """Lower end of the mean pass rate at the last compute known; None where failed."""
        return self.value_at(self.seen)[1] if self.seen is not None and len(self.compute) else None

    def widened(self, factor: float) -> "Course":
        """The same with the half widths multiplied, cut to [0, 1]: by what the record of earlier forecasts asks for.

        That record is of what lay ahead: up to the last compute known nothing changes, from FULL_FROM times that on all
        does, and in between the factor grows with log compute. No form falls, so that no lower end goes below what is
        reached. Whether the ceiling is known is decided anew.
        """
        if factor == 1.0 or self.ceiling is None or self.interval is None:
            return self
        reached = self.reached
        status, (lo, hi) = widened_ceiling(self.ceiling, self.interval, self.level, factor, reached)
        ahead = np.clip(np.log(self.compute / (self.seen or 1.0)) / math.log(FULL_FROM), 0.0, 1.0)
        bottom, top = widen(self.value, self.lo, self.hi, factor**ahead, reached)
        return replace(
            self, interval=(lo, hi), lo=bottom, hi=top, widening=self.widening * factor, status=status,
            message="" if status == "ok" else not_known(lo, hi),
        )  # fmt: skip


def course_of(fit: Fit) -> Course:
    """From the points of a fit that has some, at its level."""
    assert fit.data is not None
    data, last = fit.data, float(fit.data.compute[-1])
    grid = np.geomspace(REACH[0] * data.compute[0], REACH[1] * last, NODES)
    said = extrapolate(data.compute, data.reward, grid, level=fit.level, stderr=data.stderr, work=data.work)
    nothing = np.empty(0)
    columns = (nothing,) * 4 if said.status == "failed" else (said.at, said.value, said.lo, said.hi)
    return Course(said.status, said.message, said.level, said.ceiling, said.ceiling_interval, *columns, last)


def widened_ceiling(
    value: float, interval: tuple[float, float], level: float, factor: float, reached: float | None
) -> tuple[str, tuple[float, float]]:
    """(status, interval) of a forecast ceiling whose half widths are multiplied. reached: as of a Course."""
    below, above = np.array(interval)
    lo, hi = (float(end) for end in widen(np.array(value), below, above, factor, reached))
    return "ok" if hi - lo <= widest_known(level) else "not_identified", (lo, hi)


def widest_known(level: float) -> float:
    """The width of an interval of `level` up to which a ceiling is called known; MAX_CEILING_WIDTH is that at 90 %."""
    return MAX_CEILING_WIDTH * normal_quantile(level) / normal_quantile(0.9)


@lru_cache(maxsize=64)
def normal_quantile(level: float) -> float:
    """Standard deviations in half a central interval of `level`."""
    return NormalDist().inv_cdf(0.5 + 0.5 * level)


def widen(
    value: Array, lo: Array, hi: Array, factor: float | Array, reached: float | None
) -> tuple[Array, Array]:
    """The ends with their distances from `value` multiplied, cut to [0, 1]; lower ends do not sink below `reached`."""
    least = np.minimum(lo, 0.0 if reached is None else reached)
    return np.maximum(value - factor * (value - lo), least), np.minimum(value + factor * (hi - value), 1.0)
