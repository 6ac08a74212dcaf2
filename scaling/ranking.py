"""Recipes by what their runs are forecast to reach at one compute: what differs by more than form, noise and seed.

A recipe has one or more runs, each with a forecast there (`scaling.extrapolate`): a value and an interval that knows
of form and noise. The runs' values scatter around the recipe's own with the variation between seeds, which
`scaling.seeds.variation` estimates from all recipes of the task:

    value_i = recipe + seed_i + error_i,    seed_i ~ (0, sd**2),    error_i ~ (0, se_i**2).

What a forecast errs by is mostly the form, which the runs of one recipe have in common: more seeds do not lessen it.
Between recipes it counts as independent. The sd is known by its degrees of freedom only, so
that intervals are Student's t, with Welch and Satterthwaite's degrees of freedom for the sum (Biometrics Bulletin 2,
1946). Intervals may be skewed: each side has its own error (Zou and Donner 2008, as in `scaling.compare`).

A difference is real where its interval at REAL holds no zero. Recipes are compared at one compute, the largest that
any of their runs has seen, and at the forecast ceiling (`compared`): a run that was stopped early has a wide interval
there and no advantage. A run that has seen less than a quarter of it is not compared yet: forecasts over more than four
times the compute seen are not as good as their intervals (docs/validation.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeGuard

import numpy as np
from scipy.special import ndtri, stdtrit

from scaling.course import Course
from scaling.curve import Array, Bools
from scaling.points import InputError, check_fraction
from scaling.recipes import Columns
from scaling.seeds import CORPUS, Between, Estimate, variation

REAL = 0.95  # level of the interval of a difference that is called real
NOISE = (
    0.5  # of a forecast's error variance, at a compute that was reached: what makes runs alike look different
)
N = 4000  # draws of a chance: good to about 0.01; of many recipes fewer:
FEWEST, MOST_NUMBERS = 400, 1_000_000
_MAX_DOF = 1e5  # beyond it Student's t is the normal to every digit that matters
ALONE = Between(0.0, 1.0, "none")  # for values whose intervals know of seeds already

BEHIND = 4.0  # times what a run has seen: where another has seen more than that, it is not compared
AHEAD = 10.0  # times what a run has seen: further it is not compared either

Forecast = tuple[float, float, float]  # value, lo, hi of one run at the shared compute


class Reached(NamedTuple):
    """A recipe's value with its interval, seeds included."""

    value: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Mean:
    """A recipe's value with its standard error to either side (form and noise), and the seeds' share in it: the
    variance of the mean is error**2 + seed_share * sd**2."""

    value: float
    below: float
    above: float
    seed_share: float
    runs: int


@dataclass(frozen=True)
class Gap:
    """First minus second, with its interval at `level`. real: whether the interval holds no zero."""

    value: float
    lo: float
    hi: float
    level: float

    @property
    def real(self) -> bool:
        """Whether the difference is more than form, noise and seeds explain."""
        return self.lo > 0.0 or self.hi < 0.0


@dataclass(frozen=True)
class Standing:
    """One recipe among those compared: value with interval (seeds included), chance to be the best, and rank: one more
    than the number of recipes that are really better."""

    value: float
    lo: float
    hi: float
    chance: float
    rank: int
    runs: int


@dataclass(frozen=True)
class Place:
    """Recipes at one compute (None: the forecast ceiling), in the order given; None for those not compared there.
    level: of their intervals."""

    compute: float | None
    means: "list[Mean | None]"
    between: Between
    level: float

    @cached_property
    def standings(self) -> list[Standing | None]:
        """Of each: interval, chance and rank among all."""
        found = iter(
            standings([one for one in self.means if one is not None], self.between, level=self.level)
        )
        return [None if one is None else next(found) for one in self.means]

    def interval(self, index: int) -> Reached | None:
        """Value and interval of one, as in its standing; nothing is drawn for it."""
        if (mean := self.means[index]) is None:
            return None
        return Reached(*(float(column[0]) for column in _intervals([mean], self.between, self.level)))

    def gap(self, first: int, second: int) -> Gap | None:
        """How far the first lies above the second; None where one is not compared."""
        a, b = self.means[first], self.means[second]
        return None if a is None or b is None else gap(a, b, self.between)

    def in_order(self) -> list[int]:
        """Those compared, by rank and then by value, the best first."""
        return list(self._order)

    @cached_property
    def _order(self) -> list[int]:
        known = [(one.rank, -one.value, index) for index, one in enumerate(self.standings) if one is not None]
        return [index for _, _, index in sorted(known)]

    def all_in_order(self) -> list[int]:
        """The same, and then those not compared, in the order given."""
        return self.in_order() + [index for index, one in enumerate(self.means) if one is None]


@dataclass(frozen=True)
class Compared:
    """Rivals at the compute they share and at their forecast ceilings. runs: how many of each recipe's took part; why:
    what keeps a recipe or some of its runs out, "" where nothing does."""

    here: Place
    ceiling: Place
    runs: list[int]
    why: list[str]


def compared(
    recipes: Sequence[Sequence[Course | None]],
    between: Between,
    compute: float | None = None,
    *,
    level: float = 0.9,
) -> Compared:
    """Recipes by their runs' forecasts, at `compute` or else at the largest that any run has seen.

    A run without a forecast takes no part, nor one that has seen less than a quarter of what the furthest has, or less
    than a tenth of `compute`.
    Intervals of standings at `level`. Raises InputError for a compute that is not above zero.
    """
    part, last, where = _taking_part(recipes, compute)
    own = _level_of(part, level)
    here = [_means(runs, np.array([where]), between, own)[0] for runs in part]
    ceilings = [[(run.ceiling or 0.0, *run.interval) for run in runs if run.interval] for runs in part]
    counts = [mean.runs if mean else 0 for mean in here]
    return Compared(
        Place(where or None, here, between, level),
        Place(
            None, [mean_of(runs, between, level=own) if runs else None for runs in ceilings], between, level
        ),
        counts,
        [_why(*both, last, where) for both in zip(recipes, counts, strict=True)],
    )


def _taking_part(
    recipes: Sequence[Sequence[Course | None]], compute: float | None = None
) -> tuple[list[list[Course]], float, float]:
    """(of each recipe the runs that are compared, the largest compute that any run has seen, where they are compared).

    Raises InputError for a compute that is not above zero.
    """
    if compute is not None and not (math.isfinite(compute) and compute > 0):
        raise InputError("recipes are compared at a compute above zero")
    told = [[run for run in runs if _has_forecast(run)] for runs in recipes]
    last = max((run.seen or 0.0 for runs in told for run in runs), default=0.0)
    where = last if compute is None else compute
    return [[run for run in runs if not _too_early(run, last, where)] for runs in told], last, where


def over(recipe: Sequence[Course | None], between: Between, compute: Array, *, level: float = 0.9) -> Columns:
    """One recipe's value with its interval at computes [m], seeds included, by the runs that `compared` takes; NaN
    where none of them is forecast."""
    part, _, _ = _taking_part([recipe])
    means = _means(part[0], compute, between, _level_of(part, level))
    found = np.full((3, len(compute)), math.nan)
    if known := [mean for mean in means if mean is not None]:
        found[:, [mean is not None for mean in means]] = _intervals(known, between, level)
    runs = np.array([mean.runs if mean else 0 for mean in means])
    value, lo, hi = found
    return Columns(value, lo, hi, runs, level)


def _level_of(part: Sequence[Sequence[Course]], level: float) -> float:
    """The level of the runs' forecasts; `level` without any. Raises InputError for several."""
    levels = {run.level for runs in part for run in runs} or {level}
    if len(levels) > 1:
        raise InputError("forecasts of different levels cannot be compared")
    return levels.pop()


def _means(runs: Sequence[Course], compute: Array, between: Between, own: float) -> "list[Mean | None]":
    """[m] of one recipe at computes [m], from its runs' forecasts of level `own`; None where none is known."""
    if not runs:
        return [None] * len(compute)
    each = np.array([run.at(compute) for run in runs])  # [runs, 3, m]
    known = np.isfinite(each).all(axis=1)
    value, lo, hi = np.where(known[:, None], each, 0.0).transpose(1, 0, 2)
    found = _pooled(value, np.minimum(lo, value), np.maximum(hi, value), known, between, own)
    return [mean if mean.runs else None for mean in found]


def variation_of(recipes: Sequence[Sequence[Course | None]], prior: Between = CORPUS) -> Between:
    """How far seeds differ: of each recipe its runs at the compute that the shortest of them has seen."""
    found = []
    for runs in recipes:
        told = [run for run in runs if _has_forecast(run)]
        least = min((run.seen or 0.0 for run in told), default=0.0)
        found.append([at for run in told if least and (at := _at(run, least))])
    return seeds_of(found, prior)


def _has_forecast(run: Course | None) -> TypeGuard[Course]:
    return run is not None and run.ceiling is not None and run.interval is not None and bool(run.seen)


def _too_early(run: Course, last: float, compute: float) -> str:
    """Why a run is not compared at a compute, where the furthest has seen `last`; else nothing."""
    seen = (run.seen or 0.0) * (1 + 1e-9)
    if last > BEHIND * seen:
        return f"seen to less than a quarter of the compute that the furthest has seen ({last:.3g})"
    return (
        f"seen to less than a tenth of the compute asked for ({compute:.3g})"
        if compute > AHEAD * seen
        else ""
    )


def _at(run: Course, compute: float) -> Forecast | None:
    value, lo, hi = run.value_at(compute)
    return (value, min(lo, value), max(hi, value)) if math.isfinite(value + lo + hi) else None


def _why(runs: Sequence[Course | None], part: int, last: float, compute: float) -> str:
    """Why only `part` of these runs are compared; "" where all are."""
    if part == len(runs):
        return ""
    failed = [run.message for run in runs if run is not None and not _has_forecast(run) and run.message]
    told = [run for run in runs if _has_forecast(run)]
    if failed:
        reason = failed[0]
    elif len(told) < len(runs):
        reason = "no forecast yet"
    else:
        early = [why for run in told if (why := _too_early(run, last, compute))]
        reason = early[0] if early else "that compute lies before its evaluations"
    left_out = len(runs) - part
    return reason if not part else f"{left_out} of {len(runs)} runs not in it: {reason}"


def mean_of(runs: Sequence[Forecast], between: Between, *, level: float = 0.9) -> Mean:
    """A recipe from its runs' forecasts, whose intervals are of `level`. Raises InputError without runs, and for a
    value outside its interval or not finite."""
    check_fraction("level", level)
    if not len(runs):
        raise InputError("no forecasts of this recipe")
    value, lo, hi = np.array(runs, dtype=float).T
    if not np.isfinite([value, lo, hi]).all() or (lo > value).any() or (hi < value).any():
        raise InputError("a forecast needs a finite value within a finite interval")
    known = np.ones((len(value), 1), dtype=bool)
    return _pooled(value[:, None], lo[:, None], hi[:, None], known, between, level)[0]


def _pooled(value: Array, lo: Array, hi: Array, known: Bools, between: Between, level: float) -> list[Mean]:
    """[m] of one recipe from its runs' forecasts [runs, m] of `level`, of those that are known."""
    z = float(ndtri(0.5 + 0.5 * level))
    below, above = (value - lo) / z, (hi - value) / z
    weight = known / (((below + above) / 2.0) ** 2 + between.sd**2 + 1e-24)
    weight /= np.maximum(weight.sum(axis=0), 1e-300)
    sums = ((weight * each).sum(axis=0).tolist() for each in (value, below, above, weight))
    return [Mean(*one) for one in zip(*sums, known.sum(axis=0).tolist(), strict=True)]


def seeds_of(
    recipes: Sequence[Sequence[Forecast]], prior: Between = CORPUS, *, level: float = 0.9
) -> Between:
    """How far seeds differ, by forecasts of each recipe's runs at a compute that all of its runs have reached."""
    z = float(ndtri(0.5 + 0.5 * level))
    own = math.sqrt(NOISE)
    return variation(
        [[Estimate(value, own * (hi - lo) / (2.0 * z)) for value, lo, hi in runs] for runs in recipes], prior
    )


def gap(a: Mean, b: Mean, between: Between, *, level: float = REAL) -> Gap:
    """How far the first recipe lies above the second."""
    value = a.value - b.value
    lo, hi = _reach(
        np.hypot([a.below, a.above], [b.above, b.below]), a.seed_share + b.seed_share, between, level
    )
    return Gap(value, value - float(lo), value + float(hi), level)


def chance(probability: float) -> str:
    """A share of draws in words: two digits, and never a certainty that no number of draws can show."""
    if probability < 0.01:
        return "below 0.01"
    return "above 0.99" if probability > 0.99 else f"{probability:.2f}"


def standings(means: Sequence[Mean], between: Between, *, level: float = 0.9) -> list[Standing]:
    """Each recipe among all, in the order given; intervals at `level`."""
    if not means:
        return []
    value, below, above, share = _columns(means)
    _, lo, hi = _intervals(means, between, level)
    ranks = 1 + _really_better(value, below, above, share, between).sum(axis=0)
    chances = _chances(value, below, above, share, between)
    columns = zip(value, lo, hi, chances, ranks, means, strict=True)
    return [
        Standing(float(v), float(low), float(high), float(chance), int(rank), one.runs)
        for v, low, high, chance, rank, one in columns
    ]


def _columns(means: Sequence[Mean]) -> tuple[Array, Array, Array, Array]:
    value, below, above, share = (
        np.array([getattr(one, name) for one in means]) for name in ("value", "below", "above", "seed_share")
    )
    return value, below, above, share


def _intervals(means: Sequence[Mean], between: Between, level: float) -> tuple[Array, Array, Array]:
    """(value, lo, hi), each [k], at `level`, with seeds in it."""
    value, below, above, share = _columns(means)
    reach = [_reach(side, share, between, level) for side in (below, above)]
    lo, hi = np.clip(value - reach[0], 0.0, 1.0), np.clip(value + reach[1], 0.0, 1.0)
    return value, np.minimum(lo, value), np.maximum(hi, value)  # also of values that are no pass rates


def _reach(error: Array, share: Array | float, between: Between, level: float) -> Array:
    """Half widths at `level` for errors [...] of form and noise, and the seeds' share of the variance [...]."""
    seed = between.sd**2 * np.asarray(share, dtype=float)
    total = np.asarray(error, dtype=float) ** 2 + seed
    dof = np.minimum(between.dof * (total / np.maximum(seed, 1e-6 * total + 1e-300)) ** 2, _MAX_DOF)
    return stdtrit(dof, 0.5 + 0.5 * level) * np.sqrt(total)


def _really_better(value: Array, below: Array, above: Array, share: Array, between: Between) -> Bools:
    """[k, k]: whether the first index is really better than the second."""
    error, shares = np.hypot(below[:, None], above[None, :]), share[:, None] + share[None, :]
    ahead = value[:, None] - value[None, :]
    sure, least = (
        stdtrit(dof, 0.5 + 0.5 * REAL) * np.hypot(error, between.sd * np.sqrt(shares))
        for dof in (between.dof, _MAX_DOF)
    )
    better, open_ones = ahead > sure, (ahead > least) & (ahead <= sure)
    better[open_ones] = ahead[open_ones] > _reach(error[open_ones], shares[open_ones], between, REAL)
    return better


def _chances(value: Array, below: Array, above: Array, share: Array, between: Between) -> Array:
    """How often each is the highest of N draws, the same for the same numbers; a tie is shared."""
    rng = np.random.default_rng(0)
    n = min(N, max(FEWEST, MOST_NUMBERS // len(value)))
    error, seed = rng.standard_normal((2, n, len(value)))
    sd = between.sd * np.sqrt(between.dof / rng.chisquare(between.dof, n))[:, None]
    drawn = value + error * np.where(error > 0, above, below) + sd * np.sqrt(share) * seed
    wins = drawn == drawn.max(axis=1, keepdims=True)
    return (wins / wins.sum(axis=1, keepdims=True)).mean(axis=0)
