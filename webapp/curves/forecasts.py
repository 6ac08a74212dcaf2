"""Stored forecasts: what the averaged forms (`scaling.extrapolate`) say from the very points of a stored fit.

Worked out once, when the fit is stored, and kept in `Fit.forecast`; a page reads it. It is there also where Eq. 1 could
not be fitted, and says so itself where no saturating curve describes the points.
"""

import logging
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

import scaling
from scaling.extrapolate import MAX_CEILING_WIDTH, not_known
from webapp.curves.outlook import NODES, REACH

log = logging.getLogger(__name__)
Payload = dict[str, Any]
MULTIPLES = (2, 4, 10)  # of the compute seen
DIGITS = 7
FULL_FROM = 1.25  # times the compute known: the nearest that the record of forecasts is about


@dataclass(frozen=True)
class Forecast:
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
    compute: np.ndarray
    value: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    seen: float | None
    widening: float = 1.0

    @property
    def known(self) -> bool:
        """Whether the ceiling is pinned: its interval is narrow enough to be called known."""
        return self.status == "ok"

    def at(self, compute: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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

    def multiples(self) -> list[tuple[int, float, float, float, float]]:
        """(times, compute, value, lo, hi) at each of MULTIPLES of the compute seen; empty where failed."""
        if self.seen is None or not len(self.compute):
            return []
        at = np.array(MULTIPLES) * self.seen
        columns = (column.tolist() for column in (at, *self.at(at)))
        return list(zip(MULTIPLES, *columns, strict=True))

    def on_axis(self, unit: float) -> "Forecast":
        """The same on another axis, of which one unit is `unit` of this one's."""
        seen = None if self.seen is None else self.seen / unit
        return replace(self, compute=self.compute / unit, seen=seen)

    def widened(self, factor: float) -> "Forecast":
        """The same with the half widths multiplied, cut to [0, 1]: by what the record of earlier forecasts asks for.

        That record is of what lay ahead: up to the last compute known nothing changes, from FULL_FROM times that on all
        does, and in between the factor grows with log compute. Whether the ceiling is known is decided anew.
        """
        if factor == 1.0 or self.ceiling is None or self.interval is None:
            return self
        status, (lo, hi) = widened_ceiling(self.ceiling, self.interval, self.level, factor)
        ahead = np.clip(np.log(self.compute / (self.seen or 1.0)) / math.log(FULL_FROM), 0.0, 1.0)
        bottom, top = widen(self.value, self.lo, self.hi, factor**ahead)
        return replace(
            self, interval=(lo, hi), lo=bottom, hi=top, widening=self.widening * factor, status=status,
            message="" if status == "ok" else not_known(lo, hi),
        )  # fmt: skip


def widened_ceiling(
    value: float, interval: tuple[float, float], level: float, factor: float
) -> tuple[str, tuple[float, float]]:
    """(status, interval) of a forecast ceiling whose half widths are multiplied."""
    below, above = np.array(interval)
    lo, hi = (float(end) for end in widen(np.array(value), below, above, factor))
    return "ok" if hi - lo <= widest_known(level) else "not_identified", (lo, hi)


def widest_known(level: float) -> float:
    """The width of an interval of `level` up to which a ceiling is called known; MAX_CEILING_WIDTH is that at 90 %."""
    return MAX_CEILING_WIDTH * normal_quantile(level) / normal_quantile(0.9)


@lru_cache(maxsize=64)
def normal_quantile(level: float) -> float:
    """Standard deviations in half a central interval of `level`."""
    return NormalDist().inv_cdf(0.5 + 0.5 * level)


def widen(
    value: np.ndarray, lo: np.ndarray, hi: np.ndarray, factor: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The ends with their distances from `value` multiplied, cut to [0, 1]."""
    return np.clip(value - factor * (value - lo), 0.0, 1.0), np.clip(value + factor * (hi - value), 0.0, 1.0)


def first_reaching(compute: np.ndarray, values: np.ndarray, rate: float) -> float | None:
    """Compute at which `values` [n] first reach the rate, straight in log compute: 0 where they start there or above,
    None where they do not get there."""
    above = np.flatnonzero(values >= rate)
    if not len(above):
        return None
    k = int(above[0])
    if k == 0:
        return 0.0
    way = (rate - values[k - 1]) / (values[k] - values[k - 1])
    return float(compute[k - 1] * (compute[k] / compute[k - 1]) ** way)


def forecast_of(fit: "scaling.Fit") -> Payload | None:
    """What is stored beside a fit, JSON-ready: {"status", "message", "level", "seen", "ceiling", "interval", "compute",
    "value", "lo", "hi", "multiples"}. None where the forecast crashed, which is logged."""
    try:
        return _forecast_of(fit)
    except Exception:  # the fit is stored and shown all the same
        log.exception("the forecast from %d points crashed", fit.n)
        return None


@lru_cache(maxsize=512)
def _forecast_of(fit: "scaling.Fit") -> Payload | None:  # a fit is one object for one question
    if fit.data is None:
        return None
    data, last = fit.data, float(fit.data.compute[-1])
    grid = np.geomspace(REACH[0] * data.compute[0], REACH[1] * last, NODES)
    ends = [times * last for times in MULTIPLES]
    said = scaling.extrapolate(
        data.compute, data.reward, [*grid, *ends], level=fit.level, stderr=data.stderr,
        r0_observed=data.r0_observed.tolist() or None,
    )  # fmt: skip
    return _stored(said, last)


def _stored(said: "scaling.Extrapolation", last: float) -> Payload:
    failed = said.status == "failed"
    names = ("value", "lo", "hi")
    columns = {name: None if failed else short(getattr(said, name)[:NODES]) for name in names}
    return {
        "status": said.status,
        "message": said.message,
        "level": said.level,
        "seen": last,
        "ceiling": said.ceiling,
        "interval": None if said.ceiling_interval is None else list(said.ceiling_interval),
        "compute": None if failed else short(said.at[:NODES]),
        **columns,
        "multiples": None if failed else _multiples(said),
    }


def _multiples(said: "scaling.Extrapolation") -> Payload:
    """At each of MULTIPLES of the compute seen: {"compute", "value", "interval"}."""
    return {
        f"{times}": {
            "compute": float(said.at[NODES + place]),
            "value": float(said.value[NODES + place]),
            "interval": [float(said.lo[NODES + place]), float(said.hi[NODES + place])],
        }
        for place, times in enumerate(MULTIPLES)
    }


def read(stored: Payload | None) -> Forecast | None:
    """The stored payload as arrays; None where nothing is stored."""
    if not stored:
        return None
    compute, value, lo, hi = (
        np.asarray(stored[name] or (), float) for name in ("compute", "value", "lo", "hi")
    )
    interval = tuple(stored["interval"]) if stored["interval"] else None
    return Forecast(
        stored["status"], stored["message"], stored["level"], stored["ceiling"], interval,
        compute, value, lo, hi, stored["seen"],
    )  # fmt: skip


def short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
