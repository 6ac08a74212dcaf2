"""The result of a fit: one frozen object that says what it knows and what it does not."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from scaling import curve
from scaling.curve import NAMES, Array
from scaling.intervals import Interval, Region, build
from scaling.noise import Noise
from scaling.points import Points, check_fraction
from scaling.ridge import trace
from scaling.solve import Problem, Scan, Solutions

IDENTIFY_LEVEL = 0.98  # the status is judged at this level, whatever level is asked for


@dataclass(eq=False)
class Likelihood:
    """What the intervals are computed from; `offset` of log compute and `shift` of the reward undo the scaling.

    `ends` are where all starts of the search led.
    """

    problem: Problem
    grid: Scan
    best: Solutions
    noise: Noise
    offset: float
    shift: float
    ends: Solutions
    regions: dict[float, Region] = field(default_factory=dict)

    @cached_property
    def ridge(self) -> Solutions:
        """The ridge as far as IDENTIFY_LEVEL reaches."""
        return trace(self.problem, self.grid, self.best, self.limit(IDENTIFY_LEVEL))

    @property
    def sse(self) -> float:
        """The least (weighted) sum of squares, start observations included."""
        return float(self.best.sse[0])

    def limit(self, level: float, *, one_sided: bool = False) -> float:
        """Greatest sum of squares inside an interval of `level`."""
        return self.sse + self.noise.allowance(level, one_sided=one_sided)

    def region(self, level: float, *, one_sided: bool = False) -> Region:
        """Samples of the region of `level`; made once."""
        limit = self.limit(level, one_sided=one_sided)
        if limit not in self.regions:
            far = limit > self.limit(IDENTIFY_LEVEL)
            ridge = trace(self.problem, self.grid, self.best, limit) if far else self.ridge
            self.regions[limit] = build(self.problem, ridge, self.best, limit)
        return self.regions[limit]


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted curve.

    status: "ok"; "not_identified": the data do not pin the ceiling (`message` gives the one-sided statement);
    "failed": no curve at all, `params` is None. params: R0, A, B, C_mid. window: first and last compute used.
    digest: SHA-256 of the points used. bounds_hit: parameters that lie on a bound of the search.
    left_out: computes of the evaluations that a robust fit left out as outliers.
    noise_sd: standard deviation of one evaluation; autocorrelation: of successive evaluations.
    """

    form: str
    method: str
    status: str
    message: str
    params: dict[str, float] | None
    level: float
    sse: float | None
    r2: float | None
    n: int
    window: tuple[float, float]
    digest: str
    bounds_hit: tuple[str, ...] = ()
    noise_sd: float | None = None
    autocorrelation: float | None = None
    left_out: tuple[float, ...] = ()
    data: Points | None = field(default=None, repr=False)
    options: dict = field(default_factory=dict, repr=False)
    likelihood: Likelihood | None = field(default=None, repr=False)

    def interval(self, name: str, level: float | None = None) -> Interval:
        """Profile-likelihood interval of R0, A, B or C_mid; an end is None where the data leave it open.

        (None, None) for a failed fit. Raises KeyError for another name, InputError for a level outside (0, 1).
        """
        if name not in NAMES:
            raise KeyError(name)
        level = self._level(level)
        if self.params is None or self.likelihood is None:
            return None, None
        if name in ("A", "R0"):
            return self._linear_interval(name, level)
        return self._shape_interval(name, level)

    @property
    def intervals(self) -> dict[str, Interval]:
        """All four at the level of the fit."""
        return {name: self.interval(name) for name in NAMES}

    @property
    def weighted_sse(self) -> float:
        """The least weighted sum of squares, start observations included, of a fit that has a curve."""
        assert self.likelihood is not None
        return self.likelihood.sse

    def at_least(self, level: float | None = None) -> float | None:
        """One-sided lower bound of the ceiling: A is at least this, with confidence `level`. None for a failed fit.

        Where the ceiling is not identified, it is the bound of what the curve has reached at the last compute: any
        more would rest on the shape of a bend that has not been seen.
        """
        like = self.likelihood
        if self.params is None or like is None:
            return None
        level = self._level(level)
        if self.status != "ok":
            return self._reached(level, one_sided=True)
        if level <= 0.5:
            return self.params["A"]
        return min(like.region(level, one_sided=True).parameter("A")[0] + like.shift, self.params["A"])

    def predict(self, compute: ArrayLike) -> Array:
        """Expected reward at `compute` (any shape, >= 0, the unit of the fit). Raises ValueError for a failed fit."""
        return curve.curve(compute, **self._curve())

    def predict_interval(
        self, compute: ArrayLike, level: float | None = None, kind: str = "mean"
    ) -> tuple[Array, Array]:
        """(lo, hi), shaped like `compute` (> 0): where the curve lies ("mean") or where one evaluation lies ("new").

        Where the ceiling is not identified, the upper edge is that of IDENTIFY_LEVEL at least: a chance step in the
        noise can look like a ceiling at 90 %, and the band must not promise what the status denies.
        Raises ValueError for a failed fit or another kind, InputError for a level outside (0, 1).
        """
        if kind not in ("mean", "new"):
            raise ValueError(f"kind {kind!r} is neither 'mean' nor 'new'")
        level = self._level(level)
        value = self.predict(compute)
        c = np.asarray(compute, dtype=float)
        if not (np.isfinite(c) & (c > 0)).all():
            raise ValueError("a band needs computes above zero")
        lo, hi = self._band(np.log(c.ravel()), level)
        lo, hi = np.minimum(lo.reshape(c.shape), value), np.maximum(hi.reshape(c.shape), value)
        if kind == "mean":
            return lo, hi
        assert self.likelihood is not None and self.noise_sd is not None
        reach = self.likelihood.noise.quantile(level) * self.noise_sd
        return value - np.hypot(value - lo, reach), value + np.hypot(hi - value, reach)

    def change_interval(
        self, from_compute: float, to_compute: float, level: float | None = None
    ) -> tuple[float, float]:
        """Interval of R(to) - R(from), which is narrower than the two bands suggest: their errors are shared."""
        level = self._level(level)
        self._curve()
        like = self.likelihood
        assert like is not None
        region = like.region(level)
        g = region.shares(np.log([from_compute, to_compute]) - like.offset)
        step = g[:, 1:] - g[:, :1]
        lo, hi = region.extremes(-step, step)
        return float(lo[0]), float(hi[0])

    def compute_for(self, target: float) -> float:
        """Compute at which the curve reaches `target`; inf above the ceiling, 0 at or below R0."""
        return curve.compute_for(target, **self._curve())

    def compute_for_interval(self, target: float, level: float | None = None) -> Interval:
        """Profile interval of `compute_for`: where the band crosses the target. The end is None where it never does."""
        grid = np.geomspace(self.window[0] * 1e-2, self.window[1] * 1e4, 240)
        lo, hi = self.predict_interval(grid, level)
        return curve.first_reaching(grid, hi, target), curve.first_reaching(grid, lo, target)

    def _level(self, level: float | None) -> float:
        return self.level if level is None else check_fraction("level", level)

    def _curve(self) -> dict:
        if self.params is None:
            raise ValueError(f"the fit failed ({self.message}), there is no curve")
        p = self.params
        return {"r0": p["R0"], "a": p["A"], "b": p["B"], "c_mid": p["C_mid"], "form": self.form}

    def _band(self, log_compute: Array, level: float) -> tuple[Array, Array]:
        lo, hi = self._band_at(log_compute, level)
        if self.status != "ok" and level < IDENTIFY_LEVEL:
            hi = np.maximum(hi, self._band_at(log_compute, IDENTIFY_LEVEL)[1])
        return lo, hi

    def _band_at(self, log_compute: Array, level: float) -> tuple[Array, Array]:
        like = self.likelihood
        assert like is not None
        region = like.region(level)
        g = region.shares(log_compute - like.offset)
        lo, hi = region.extremes(1.0 - g, g)
        return lo + like.shift, hi + like.shift

    def _linear_interval(self, name: str, level: float) -> Interval:
        like, params = self.likelihood, self.params
        assert like is not None and params is not None
        problem = like.problem
        if name == "R0" and problem.r0 is not None:
            return params["R0"], params["R0"]
        lo, hi = like.region(level).parameter(name)
        lo, hi = min(lo + like.shift, params[name]), max(hi + like.shift, params[name])
        if name == "A" and self.status != "ok":
            return self._reached(level), None
        unbounded = self.options.get("bounded") is False
        open_lo = unbounded and name == "R0" and lo <= problem.floor + like.shift
        open_hi = name == "A" and unbounded and hi >= problem.cap + like.shift
        return None if open_lo else lo, None if open_hi else hi

    def _reached(self, level: float, *, one_sided: bool = False) -> float:
        """Lower bound of the curve at the last compute used."""
        like = self.likelihood
        assert like is not None
        at_end = float(np.squeeze(self.predict(self.window[1])))
        if one_sided and level <= 0.5:
            return at_end
        region = like.region(level, one_sided=one_sided)
        g = region.shares(np.log([self.window[1]]) - like.offset)
        return min(float(region.extremes(1.0 - g, g)[0][0]) + like.shift, at_end)

    def _shape_interval(self, name: str, level: float) -> Interval:
        like, params = self.likelihood, self.params
        assert like is not None and params is not None
        region = like.region(level)
        ends = region.log_b() if name == "B" else region.c_mid()
        offset = 0.0 if name == "B" else like.offset
        lo, hi = (None if e is None else math.exp(e + offset) for e in ends)
        return (
            None if lo is None else min(lo, params[name]),
            None if hi is None else max(hi, params[name]),
        )
