"""Several runs of one recipe: its mean curve, how much its seeds differ, and the error margin that follows.

A two-stage random-effects estimate. First each run is fitted alone; then the estimates of a parameter are pooled as

    estimate_i = mean + seed_i + error_i,    seed_i ~ (0, sd**2),    error_i ~ (0, se_i**2),

with se_i from the run's own profile interval. The variance between seeds is Paule and Mandel's (J. Res. NBS 87, 1982):
the sd at which the weighted squares Q(sd) = sum (estimate_i - mean)**2 / (se_i**2 + sd**2) equal k - 1. The interval of
the mean is Hartung and Knapp's (Statistics in Medicine 20, 2001), Student t with k - 1 degrees of freedom, but never
narrower than the runs' own noise alone would make it. The interval of sd comes from Q against chi squared with k - 1
degrees of freedom (Viechtbauer, Statistics in Medicine 26, 2007). B and C_mid are pooled as logarithms, so their
means are geometric and their sd is relative: 0.1 is about 10 %.

Few seeds say little about how seeds differ; the intervals are as wide as that. Where recipes are compared
(`scaling.ranking`), all those of a task that have several seeds tell it together, with the corpus before them
(`variation`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri, ndtri, stdtrit

from scaling import curve
from scaling.curve import NAMES, Array
from scaling.intervals import Interval
from scaling.models import Fit
from scaling.points import InputError, check_fraction

LOGARITHMIC = ("B", "C_mid")

_BISECTIONS = 100


@dataclass(frozen=True)
class Estimate:
    """One run's value with its standard error; an end is open where the run's own interval is."""

    value: float
    se: float
    open_lo: bool = False
    open_hi: bool = False


@dataclass(frozen=True)
class Pooled:
    """A parameter of a recipe: `value` with its interval `lo`, `hi` (None: open), from `runs` runs.

    sd: between seeds, with its interval; all three None for a single run, which cannot tell. se: of the value.
    within: typical standard error of one run (root of the mean square). For B and C_mid sd, se and within are of the
    logarithm.
    """

    value: float
    lo: float | None
    hi: float | None
    runs: int
    se: float
    within: float
    sd: float | None = None
    sd_lo: float | None = None
    sd_hi: float | None = None


@dataclass(frozen=True)
class Between:
    """A variation between seeds known from elsewhere: standard deviation, degrees of freedom behind it, and where it
    comes from, in words."""

    sd: float
    dof: float
    source: str


@dataclass(frozen=True)
class Joint:
    """Replicated runs of one recipe, pooled. parameters: by name (R0, A, B, C_mid), None where no run gives one.

    runs: all that were given; identified: those that pin the ceiling. message: what to say with it.
    """

    form: str
    level: float
    runs: int
    identified: int
    parameters: dict[str, Pooled | None]
    message: str

    def interval(self, name: str) -> Interval:
        """Interval of the recipe's mean parameter; (None, None) where there is none. KeyError for another name."""
        pooled = self.parameters[name]
        return (None, None) if pooled is None else (pooled.lo, pooled.hi)

    def predict(self, compute: ArrayLike) -> Array:
        """The curve with the recipe's mean parameters, at `compute` (any shape). ValueError where one is missing."""
        p = {name: pooled.value for name, pooled in self.parameters.items() if pooled is not None}
        if len(p) < len(NAMES):
            raise ValueError(f"no curve: {self.message}")
        return curve.curve(compute, r0=p["R0"], a=p["A"], b=p["B"], c_mid=p["C_mid"], form=self.form)


@dataclass(frozen=True)
class Margin:
    """How far the ceiling of one more run of the recipe may lie from the recipe's, with probability `level`.

    value: the half width, None where nothing can be said. lo, hi: the same from either end of the interval of the
    variation between seeds, None where there is none. text: all in words.
    """

    value: float | None
    lo: float | None
    hi: float | None
    text: str


def joint(fits: Sequence[Fit], *, level: float = 0.9) -> Joint:
    """Pool the fits of one recipe's runs, which differ in their seed only: one form, one unit of compute.

    A run whose ceiling is not identified adds nothing to A and leaves its upper end open; one whose interval of B or
    C_mid is open, the same there. Raises InputError without fits, for mixed forms, or a level outside (0, 1).
    """
    check_fraction("level", level)
    if not fits:
        raise InputError("no runs to pool")
    if len({one.form for one in fits}) > 1:
        raise InputError("fits of different forms cannot be pooled")
    parameters = {name: _parameter(fits, name, level) for name in NAMES}
    identified = sum(one.status == "ok" for one in fits)
    return Joint(
        fits[0].form, level, len(fits), identified, parameters, _message(parameters, fits, identified)
    )


def pool(estimates: Sequence[Estimate], *, level: float = 0.9) -> Pooled:
    """The random-effects mean of at least one estimate (see the module). Raises ValueError without one."""
    if not estimates:
        raise ValueError("no seeds")
    y = np.array([e.value for e in estimates])
    v = np.array([e.se for e in estimates]) ** 2
    v = np.maximum(v, 1e-24 * max(1.0, float((y**2).max())))  # an exact estimate must not weigh infinitely
    k, tau2 = len(y), 0.0 if len(y) == 1 else _between(y, v, len(y) - 1.0)
    mean, q = _weighted(y, v, tau2)
    plain = math.sqrt(1.0 / float((1.0 / (v + tau2)).sum()))
    se = plain if k == 1 else max(plain * math.sqrt(q / (k - 1)), 1e-300)
    reach = float(ndtri(0.5 + 0.5 * level)) * plain
    if k > 1:
        reach = max(reach, float(stdtrit(k - 1, 0.5 + 0.5 * level)) * se)
    lo = None if any(e.open_lo for e in estimates) else mean - reach
    hi = None if any(e.open_hi for e in estimates) else mean + reach
    within = math.sqrt(float(v.mean()))
    if k == 1:
        return Pooled(mean, lo, hi, 1, se, within)
    sd_lo, sd_hi = _sd_interval(y, v, level)
    return Pooled(mean, lo, hi, k, max(se, plain), within, math.sqrt(tau2), sd_lo, sd_hi)


def margin(pooled: Pooled, *, level: float = 0.9, elsewhere: Between | None = None) -> Margin:
    """The recipe's error margin of A: how far the ceiling of one more run may lie from the recipe's.

    From several seeds: t(k - 1) sqrt(sd**2 + within**2 + se**2), the prediction interval of the random-effects
    model. From one: the run's own error and `elsewhere`, a variation between seeds that was measured on
    something else; without it there is no margin, for one seed cannot tell.
    """
    check_fraction("level", level)
    if pooled.sd is not None:
        return _margin_of_seeds(pooled, level)
    own = float(ndtri(0.5 + 0.5 * level)) * pooled.within
    if elsewhere is None:
        text = f"one seed cannot tell how far seeds differ; its own error is +-{own:.3f}, the margin is more"
        return Margin(None, None, None, text)
    seeds = float(stdtrit(elsewhere.dof, 0.5 + 0.5 * level)) * elsewhere.sd
    value = math.hypot(own, seeds)
    text = (
        f"+-{value:.3f} at {100 * level:.3g} %: one run's own error of {own:.3f} and a difference between seeds of "
        f"{seeds:.3f} that was not measured on this recipe ({elsewhere.source})"
    )
    return Margin(value, own, None, text)


# How far seeds of the corpus differ: docs/validation.md, "Seeds". Few degrees of freedom, for other tasks are others.
CORPUS = Between(0.007, 6.0, "Headroom's own corpus")
CORPUS_LOG_B = Between(0.08, 6.0, "Headroom's own corpus")  # of log B at a shared ceiling


def variation(recipes: Sequence[Sequence[Estimate]], prior: Between = CORPUS) -> Between:
    """How far seeds differ, from recipes with several runs each, with a scaled inverse chi-squared prior.

    The sd at which sum Q(sd) + prior.dof (prior.sd / sd)**2 equals its degrees of freedom: each recipe's k - 1 and the
    prior's. Without noise in the estimates this is the posterior of that prior; one run of a recipe adds nothing.
    """
    if not (several := [one for one in recipes if len(one) > 1]):
        return prior
    y = [np.array([e.value for e in one]) for one in several]
    v = [np.array([e.se for e in one]) ** 2 + 1e-24 for one in several]
    squares, dof = prior.dof * prior.sd**2, prior.dof + sum(len(one) - 1.0 for one in several)

    def above(tau2: float) -> bool:
        q = sum(_weighted(mine, error, tau2)[1] for mine, error in zip(y, v, strict=True))
        return q + squares / tau2 > dof

    most = (squares + sum(float(((one - one.mean()) ** 2).sum()) for one in y)) / dof
    count = f"{len(several)} {'recipe' if len(several) == 1 else 'recipes'} with several seeds"
    return Between(math.sqrt(_bisect(above, 0.0, most)), dof, f"{count} here and {prior.source}")


def estimate_of(value: float, lo: float | None, hi: float | None, *, quantile: float) -> Estimate:
    """Standard error from an interval of +-`quantile` standard errors, the mean of its sides; one side if one is open.

    0 with both ends open.
    """
    sides = [abs(end - value) for end in (lo, hi) if end is not None]
    se = sum(sides) / len(sides) / quantile if sides else 0.0
    return Estimate(value, se, lo is None, hi is None)


def _margin_of_seeds(pooled: Pooled, level: float) -> Margin:
    assert pooled.sd is not None and pooled.sd_lo is not None
    k = pooled.runs
    t = float(stdtrit(k - 1, 0.5 + 0.5 * level))
    value = t * math.sqrt(pooled.sd**2 + pooled.within**2 + pooled.se**2)
    z = float(ndtri(0.5 + 0.5 * level))
    lo, hi = (
        None if sd is None else z * math.hypot(sd, pooled.within) for sd in (pooled.sd_lo, pooled.sd_hi)
    )
    ends = f"{lo:.3f} to {'open' if hi is None else format(hi, '.3f')}"
    text = f"+-{value:.3f} at {100 * level:.3g} % from {k} runs; were their variation known exactly, it would be {ends}"
    return Margin(value, lo, hi, text)


def _parameter(fits: Sequence[Fit], name: str, level: float) -> Pooled | None:
    log = name in LOGARITHMIC
    found = [_estimate(one, name, level) for one in fits]
    if not (usable := [e for e in found if e is not None and not (e.open_lo or e.open_hi)]):
        return None
    pooled = pool(usable, level=level)
    lo, hi = pooled.lo, pooled.hi
    if len(usable) == 1:
        lo, hi = _own(fits, found, name, level)
    elif log and lo is not None and hi is not None:
        lo, hi = math.exp(lo), math.exp(hi)
    elif lo is not None and hi is not None and all(one.options.get("bounded") is not False for one in fits):
        lo, hi = max(lo, 0.0), min(hi, 1.0)
    return replace(
        pooled,
        value=math.exp(pooled.value) if log else pooled.value,
        lo=None if any(e is None or e.open_lo for e in found) else lo,
        hi=None if any(e is None or e.open_hi for e in found) else hi,
    )


def _own(fits: Sequence[Fit], found: Sequence[Estimate | None], name: str, level: float) -> Interval:
    """The profile interval of the only run that has one."""
    pairs = zip(fits, found, strict=True)
    return next(one.interval(name, level) for one, e in pairs if e and not (e.open_lo or e.open_hi))


def _estimate(one: Fit, name: str, level: float) -> Estimate | None:
    """None for a failed fit."""
    if one.params is None or one.likelihood is None:
        return None
    lo, hi = one.interval(name, level)
    value, quantile = one.params[name], one.likelihood.noise.quantile(level)
    if name not in LOGARITHMIC:
        return estimate_of(value, lo, hi, quantile=quantile)
    ends = [None if end is None else math.log(end) for end in (lo, hi)]
    return estimate_of(math.log(value), *ends, quantile=quantile)


def _weighted(y: Array, v: Array, tau2: float) -> tuple[float, float]:
    """(weighted mean, Q) at a variance between seeds."""
    w = 1.0 / (v + tau2)
    mean = float((w * y).sum() / w.sum())
    return mean, float((w * (y - mean) ** 2).sum())


def _between(y: Array, v: Array, goal: float) -> float:
    """The variance between seeds at which Q, which falls with it, is `goal`; 0 where it is less already."""

    def above(tau2: float) -> bool:
        return _weighted(y, v, tau2)[1] > goal

    if not above(0.0):
        return 0.0
    hi = max(float(((y - y.mean()) ** 2).sum()) / goal, 1e-300)  # Q(tau2) < sum of squares / tau2
    return _bisect(above, 0.0, hi)


def _bisect(above: Callable[[float], bool], lo: float, hi: float) -> float:
    for _ in range(_BISECTIONS):
        middle = 0.5 * (lo + hi)
        lo, hi = (middle, hi) if above(middle) else (lo, middle)
    return hi


def _sd_interval(y: Array, v: Array, level: float) -> tuple[float, float]:
    """Interval of the standard deviation between seeds: where Q passes the quantiles of chi squared."""
    k = len(y)
    tail = 0.5 - 0.5 * level
    upper, lower = float(chdtri(k - 1, tail)), float(chdtri(k - 1, 1.0 - tail))
    return math.sqrt(_between(y, v, upper)), math.sqrt(_between(y, v, lower))


def _message(parameters: dict[str, Pooled | None], fits: Sequence[Fit], identified: int) -> str:
    ceiling = parameters["A"]
    silent = len(fits) - identified
    rest = (
        f"; {silent} of {len(fits)} runs do not identify the ceiling, so it may be higher" if silent else ""
    )
    if ceiling is None:
        return f"not identified: none of {len(fits)} runs gives its ceiling an interval"
    if ceiling.sd is None or ceiling.sd_lo is None or ceiling.sd_hi is None:
        return f"one seed cannot tell how far seeds differ{rest}"
    ends = f"{ceiling.sd_lo:.3f} to {ceiling.sd_hi:.3f}"
    return f"the ceilings of {ceiling.runs} runs differ by a standard deviation of {ceiling.sd:.3f} ({ends}){rest}"
