"""One law for runs that differ in one axis (model size, batch, length), and the curve that it gives an unseen value.

Three things are smooth monotone functions of the axis x: the ceiling; the efficiency, which is the compute C_mid at
which half of the gain is reached; and the pass rate at compute C, compared at C in proportion to what runs of each
value spent (at equal tokens, if all saw the same). Each function is one of

    saturating   K / (1 + (x0 / x)**p)   arXiv 2509.25300 has p = 1, for another quantity; pass rates only
    power        a + b x**-p             a power law to an asymptote; pass rates only
    log          a + b log x             neither end in sight

with normal priors on K, a and b; p, x0, the scatter of values around the law and that of runs of one value around each
other lie on grids. All of it is integrated (the linear numbers in closed form), weighted by how well it explains the
runs, each with the error of its own forecast (`scaling.extrapolate`): a run that has hardly bent says little of the
ceiling. What an unseen value gets contains the scatter of the runs seen. Nothing is searched for and nothing is random.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from scaling.curve import Array
from scaling.extrapolate import Posterior, computes, ends
from scaling.noise import problem
from scaling.points import InputError, Points, check_fraction, prepare

MIN_VALUES = 3
RATES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)  # p
TURNS = np.geomspace(0.02, 50.0, 40)  # x0, in geometric means of the values seen
SCATTERS = np.array([0.003, 0.01, 0.03])  # of pass rates; of log C_mid times LOG_SCALE
LOG_SCALE = 10.0
PRIOR_SD = 1.0  # of K, a, b in pass rate
BISECTIONS = 30  # for the quantiles of a mixture
NEGLIGIBLE = 1e-5  # weight of a law against the best one


@dataclass(frozen=True)
class AxisForecast:
    """At each compute `at` [m]: median and interval [lo, hi] of `level` of the mean pass rate of a run with `value`."""

    axis_value: float
    at: Array
    value: Array
    lo: Array
    hi: Array
    level: float


@dataclass(frozen=True)
class AxisLaw:
    """Of runs at `values` [k] of the axis, any order; several runs of one value are seeds of it."""

    values: Array
    _posteriors: tuple[Posterior, ...] = field(repr=False)
    _efficiency: "Law" = field(repr=False)
    _pace: float = field(repr=False)  # the runs' computes go with this power of the axis

    def forecast(self, value: float, at: ArrayLike, *, level: float = 0.9) -> AxisForecast:
        """The curve of one more run, at an axis `value` > 0 that need not have been seen, at compute `at` [m] > 0.

        Raises InputError.
        """
        check_fraction("level", level)
        x, where = _positive("value", value), computes(at)
        own = where * (self.values[:, None] / x) ** self._pace  # [k, m]
        draws = [one.draws(c) for one, c in zip(self._posteriors, own, strict=True)]
        mean, error = np.array([one.mean(0) for one in draws]), np.array([one.std(0) for one in draws])
        laws = (law_of_rates(self.values, *column) for column in zip(mean.T, error.T, strict=True))
        median, lo, hi = np.array([law.at(x, level=level) for law in laws]).T
        return AxisForecast(x, where, median, lo, hi, level)

    def ceiling(self, value: float, *, level: float = 0.9) -> tuple[float, float, float]:
        """(median, lo, hi) of the forecast ceiling of a run with this axis value. Raises InputError."""
        check_fraction("level", level)
        draws = [one.ceilings() for one in self._posteriors]
        law = law_of_rates(self.values, [one.mean() for one in draws], [one.std() for one in draws])
        return law.at(value, level=level)

    def efficiency(self, value: float, *, level: float = 0.9) -> tuple[float, float, float]:
        """(median, lo, hi) of C_mid, in the unit of the runs' compute. Raises InputError."""
        middle, lo, hi = (math.exp(end) for end in self._efficiency.at(value, level=level))
        return middle, lo, hi


def fit_axis(
    values: ArrayLike, curves: Sequence[tuple[ArrayLike, ArrayLike]], *, names: Sequence[str] = ()
) -> AxisLaw:
    """The law of runs `curves` [k], each (compute [n], reward [n]) as of `scaling.extrapolate`, at `values` [k] > 0.

    names: of the runs, for what is refused. Raises InputError where the axis has fewer than MIN_VALUES different
    values, or a run has no forecast.
    """
    x = check_values(values, len(curves))
    called = list(names) or [f"at axis value {value:g}" for value in x]
    found = tuple(Posterior(_points(name, *curve)) for name, curve in zip(called, curves, strict=True))
    mids = [one.log_mids() for one in found]
    mean, error = np.array([one.mean() for one in mids]), np.array([one.std() for one in mids])
    spent = np.log([float(np.max(compute)) for compute, _ in curves])
    pace = float(np.polyfit(np.log(x), spent, 1)[0])
    return AxisLaw(x, found, _fit(x, mean, error, LOG_SCALE * SCATTERS, bounded=False), pace)


def law_of_rates(values: ArrayLike, mean: ArrayLike, error: ArrayLike) -> "Law":
    """The law of a pass rate that runs at `values` [k] > 0 of the axis have, known as `mean` [k] with standard errors
    `error` [k]. Raises InputError where the axis has fewer than MIN_VALUES different values.
    """
    y, se = np.asarray(mean, dtype=float), np.asarray(error, dtype=float)
    return _fit(check_values(values, len(y)), y, se, SCATTERS, bounded=True)


def check_values(values: ArrayLike, runs: int) -> Array:
    """The values of an axis as an array [runs]. Raises InputError where they show no law: see `fit_axis`."""
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or len(x) != runs:
        raise InputError(f"{x.size} values of the axis but {runs} runs")
    for value in x:
        _positive("value", float(value))
    different = len(np.unique(x))
    if different == 1:
        raise InputError(f"all runs have the same axis value {x[0]:g}: there is no law to see")
    if different < MIN_VALUES:
        raise InputError(
            f"{different} axis values fit any law: at least {MIN_VALUES} different ones are needed"
        )
    return x


def _points(name: str, compute: ArrayLike, reward: ArrayLike) -> Points:
    try:
        data = prepare(compute, reward)
    except InputError as error:
        raise InputError(f"the run {name} has no forecast: {error}") from None
    if why := problem(data):
        raise InputError(f"the run {name} has no forecast: {why}")
    return data


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} {value:g} of the axis is not above zero")
    return float(value)


@dataclass(frozen=True)
class Law:
    """One quantity over the axis, a mixture of laws: `weight` [g] of each; its basis by (`kind`, `shape`) [g]; `beta`
    [g, 2] and `covariance` [g, 2, 2] of its linear numbers; `scatter` [g]: variance of one more run around it. `scale`:
    x is in units of it. `bounded`: it is a pass rate."""

    scale: float
    kind: np.ndarray
    shape: Array  # [g, 2]: p, x0
    weight: Array
    beta: Array
    covariance: Array
    scatter: Array
    bounded: bool

    def at(self, value: float, *, level: float = 0.9) -> tuple[float, float, float]:
        """(median, lo, hi) of one more run, at an axis `value` > 0 that need not have been seen. Raises InputError."""
        lo, middle, hi = self.over([value], level=level)[0].tolist()
        return middle, lo, hi

    def over(self, values: ArrayLike, *, level: float = 0.9) -> Array:
        """[m, 3]: lower end, median and upper end of one more run at each of `values` [m] > 0. Raises InputError."""
        check_fraction("level", level)
        x = np.array([_positive("value", float(value)) for value in np.asarray(values)]) / self.scale
        row = _design(self.kind, self.shape, x)  # [g, m, 2]
        mean = np.einsum("gmi,gi->mg", row, self.beta)[:, None]
        sd = np.sqrt(np.einsum("gmi,gij,gmj->mg", row, self.covariance, row) + self.scatter)[:, None]
        wanted = np.array(ends(level))
        lo, hi = (mean - 5.0 * sd).min(-1) + 0.0 * wanted, (mean + 5.0 * sd).max(-1) + 0.0 * wanted
        for _ in range(BISECTIONS):
            middle = 0.5 * (lo + hi)
            below = ndtr((middle[..., None] - mean) / sd) @ self.weight < wanted
            lo, hi = np.where(below, middle, lo), np.where(below, hi, middle)
        return np.clip(hi, 0.0, 1.0) if self.bounded else hi


SATURATING, POWER, LOG = range(3)
FORMS = ("saturating", "power", "log")


def _design(kind: np.ndarray, shape: Array, x: Array) -> Array:
    """[g, k, 2]: what the linear numbers are multiplied by, at axis values x [k] in units of their scale."""
    p, turn = shape[:, :1], shape[:, 1:]
    saturating = 1.0 / (1.0 + (turn / x) ** p)
    second = np.choose(kind[:, None], [saturating, x**-p, np.log(x) * np.ones_like(p)])
    first = (kind[:, None] != SATURATING) * np.ones_like(x)
    return np.stack([first, second], axis=-1)


def _shapes(bounded: bool) -> list[tuple[int, tuple[float, float]]]:
    """(form, (p, x0)) of every law; bounded: of a pass rate."""
    log = [(LOG, (1.0, 1.0))]
    if not bounded:
        return log
    saturating = [(SATURATING, (p, float(turn))) for p in RATES for turn in TURNS]
    return saturating + [(POWER, (p, 1.0)) for p in RATES] + log


def _fit(x: Array, y: Array, error: Array, scatters: Array, *, bounded: bool) -> Law:
    """Laws of a quantity y [k], known with standard errors [k], at axis values x [k]; bounded: it is a pass rate."""
    scale = float(np.exp(np.log(x).mean()))
    shapes = _shapes(bounded)
    count = np.bincount([kind for kind, _ in shapes], minlength=len(FORMS))
    kind, shape = (np.array(column) for column in zip(*shapes, strict=True))
    design = _design(kind, shape, x / scale)
    twins = x[:, None] == x
    seeds = scatters if twins.sum() > len(x) else np.zeros(1)
    found = []
    for around in scatters:
        for among in seeds:
            covariance = around**2 * twins + among**2 * np.eye(len(x)) + np.diag(error**2)
            log_weight, beta, spread = _linear(design, y, covariance, PRIOR_SD if bounded else 1e3)
            scatter = np.full(len(kind), around**2 + among**2)
            found.append((kind, shape, log_weight - np.log(count[kind]), beta, spread, scatter))
    kind, shape, log_weight, beta, spread, scatter = (
        np.concatenate(column) for column in zip(*found, strict=True)
    )
    weight = np.exp(log_weight - log_weight.max())
    told = weight > NEGLIGIBLE
    weight = weight[told] / weight[told].sum()
    return Law(scale, kind[told], shape[told], weight, beta[told], spread[told], scatter[told], bounded)


def _linear(design: Array, y: Array, covariance: Array, prior_sd: float) -> tuple[Array, Array, Array]:
    """Log evidence [s], mean [s, 2] and covariance [s, 2, 2] of the linear numbers of designs [s, k, 2]."""
    inverse = np.linalg.inv(covariance)
    weighed = np.swapaxes(design, 1, 2) @ inverse
    precision = weighed @ design + np.eye(2) / prior_sd**2
    right = weighed @ y
    spread = np.linalg.inv(precision)
    beta = (spread @ right[..., None])[..., 0]
    fitted = 0.5 * ((right * beta).sum(1) - y @ inverse @ y)
    volume = np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(precision)[1]
    return np.asarray(fitted - 0.5 * volume, dtype=float), beta, np.asarray(spread, dtype=float)
