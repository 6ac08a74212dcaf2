"""What more compute buys: the gain, the compute to a target, whether to stop, which of several runs to continue.

Values and their intervals are those of the fit (the best curve, profile likelihood), so that a number is the same
wherever it is shown; probabilities are shares of curves drawn from what the data allow (`scaling.draws`), with its flat
prior, which matters where a ceiling is not identified. `n` draws, so they are good to about 0.5 / sqrt(n).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scaling.draws import Draws, chance, draws, interval
from scaling.intervals import Interval
from scaling.models import Fit
from scaling.points import check_fraction

N = 4000


def gain(fit: Fit, from_c: float, to_c: float, *, level: float | None = None) -> tuple[float, float, float]:
    """(gain, lo, hi): expected added reward from compute `from_c` to `to_c` (both > 0), with its interval.

    Raises ValueError for a failed fit or computes that are not finite numbers above zero.
    """
    if not all(math.isfinite(c) and c > 0 for c in (from_c, to_c)):
        raise ValueError("a gain needs two computes above zero")
    start, end = fit.predict([from_c, to_c])
    value = float(end - start)
    lo, hi = fit.change_interval(from_c, to_c, level)
    return value, min(lo, value), max(hi, value)


@dataclass(frozen=True)
class Reach:
    """compute: where the best curve reaches `target`, None where that lies above its ceiling. interval: of it, with an
    open end (None) where the target may never be reached. above_ceiling: probability that the target is."""

    target: float
    compute: float | None
    interval: Interval
    above_ceiling: float
    identified: bool
    level: float

    @property
    def sentence(self) -> str:
        """In words: "0.6 is reached at 512 [480, 560] (90 %)"."""
        lo, hi = self.interval
        level = f"{100 * self.level:.3g} %"
        prior = "" if self.identified else " (the ceiling is not identified, so this rests on the prior)"
        above = f"above the ceiling with probability {chance(self.above_ceiling)}{prior}"
        if self.compute is None:
            least = "" if lo is None else f"; not before {lo:.4g} ({level})"
            return f"{self.target:g} is {above}{least}"
        end = "open" if hi is None else f"{hi:.4g}"
        start = "open" if lo is None else f"{lo:.4g}"
        where = f"{self.target:g} is reached at {self.compute:.4g} [{start}, {end}] ({level})"
        return f"{where}; it is {above}" if hi is None or self.above_ceiling >= 0.005 else where


def compute_to(fit: Fit, target: float, *, level: float | None = None, n: int = N, seed: int = 0) -> Reach:
    """Compute at which `fit` reaches the reward `target`. Raises ValueError for a failed fit or no finite target."""
    if not math.isfinite(target):
        raise ValueError("the target is not a finite number")
    level = _level(fit, level)
    best = fit.compute_for(target)
    lo, hi = fit.compute_for_interval(target, level)
    ceilings = _draws(fit, n, seed).A
    above = float(np.mean(ceilings < target))
    compute = best if math.isfinite(best) else None
    if compute is not None:
        lo, hi = None if lo is None else min(lo, compute), None if hi is None else max(hi, compute)
    return Reach(float(target), compute, (lo, hi), above, fit.status == "ok", level)


@dataclass(frozen=True)
class Stop:
    """stop: whether the gain that remains at `at`, ceiling minus curve, is below `delta` with at least `probability`;
    never where the ceiling is not identified. below: the probability that it is. remaining: with its interval.
    compute: where half of the draws have no more than `delta` left, with its interval; stop_at: where a share of
    `probability` of them have. What the data do not say is None."""

    stop: bool
    at: float
    delta: float
    probability: float
    below: float
    remaining: float | None
    remaining_interval: Interval
    compute: float | None
    interval: Interval
    stop_at: float | None
    level: float

    @property
    def sentence(self) -> str:
        """In words, with every interval."""
        if self.remaining is None:
            return f"the ceiling is not identified, so the data do not say what remains at {self.at:.4g}"
        lo, hi = self.remaining_interval
        level = f"{100 * self.level:.3g} %"
        left = f"{self.remaining:.3f} [{_text(lo, '.3f')}, {_text(hi, '.3f')}] ({level}) remains at {self.at:.4g}"
        below = f"below {self.delta:g} with probability {chance(self.below)}"
        if self.stop:
            return f"stop: {left}, {below}"
        ends = f"[{_text(self.interval[0], '.4g')}, {_text(self.interval[1], '.4g')}] ({level})"
        return f"go on: {left}, {below}; less than {self.delta:g} is expected from {_text(self.compute, '.4g')} {ends}"


def when_to_stop(
    fit: Fit,
    at: float,
    delta: float,
    probability: float = 0.9,
    *,
    level: float | None = None,
    n: int = N,
    seed: int = 0,
) -> Stop:
    """Is there less than `delta` (> 0) left to gain at compute `at` (> 0), with at least `probability`?

    Raises ValueError for a failed fit, `at` or `delta` not above zero, or a probability outside (0, 1).
    """
    if not (math.isfinite(at) and at > 0 and math.isfinite(delta) and delta > 0):
        raise ValueError("stopping needs a compute and a gain above zero")
    check_fraction("probability", probability)
    level = _level(fit, level)
    drawn = _draws(fit, n, seed)
    near = drawn.compute_for(drawn.A - delta)  # where each curve has `delta` left
    below = float((near <= at).mean())
    lo, hi = (_finite(float(end)) for end in interval(near, level))
    if fit.status != "ok":
        return Stop(False, at, delta, probability, below, None, (0.0, None), None, (lo, None), None, level)
    assert fit.params is not None
    remaining = fit.params["A"] - float(fit.predict(at))
    low, high = fit.change_interval(at, math.inf, level)
    return Stop(
        below >= probability,
        at,
        delta,
        probability,
        below,
        remaining,
        (min(low, remaining), max(high, remaining)),
        _finite(float(np.median(near))),
        (lo, hi),
        _finite(float(np.quantile(near, probability, method="inverted_cdf"))),
        level,
    )


@dataclass(frozen=True)
class Candidate:
    """One recipe at its budget: predicted value with its interval, and the probability that it is the best of all.
    so_far: last compute its fit has seen."""

    name: str
    status: str
    so_far: float
    budget: float
    value: float
    interval: tuple[float, float]
    best: float


@dataclass(frozen=True)
class Choice:
    """Candidates, the likeliest best first; `excluded`: for each failed fit, why."""

    candidates: tuple[Candidate, ...]
    excluded: dict[str, str]
    level: float


def which_to_continue(
    fits: Mapping[str, Fit],
    budgets: float | Mapping[str, float],
    *,
    level: float = 0.9,
    n: int = N,
    seed: int = 0,
) -> Choice:
    """Of several recipes, which is the best once each has had its budget?

    budgets: total compute (> 0), one for all or one for each name; `after` gives what is spent so far plus the same for
    each. A fit that is not identified takes part with all that its data and the prior allow; a failed one is
    excluded by name. The runs count as independent. Raises ValueError for a budget that is missing or not above
    zero.
    """
    check_fraction("level", level)
    excluded = {name: fit.message for name, fit in fits.items() if fit.params is None}
    usable = {name: fit for name, fit in fits.items() if fit.params is not None}
    budget = {name: _budget(budgets, name) for name in usable}
    if not usable:
        return Choice((), excluded, level)
    rng = np.random.default_rng(seed)
    values = np.stack([draws(fit, n, rng).predict(budget[name])[:, 0] for name, fit in usable.items()])
    wins = values == values.max(axis=0)
    best = (wins / wins.sum(axis=0)).mean(axis=1)
    found = [
        _candidate(name, fit, budget[name], float(p), level)
        for (name, fit), p in zip(usable.items(), best, strict=True)
    ]
    return Choice(tuple(sorted(found, key=_likeliest_first)), excluded, level)


def after(fits: Mapping[str, Fit], more: float) -> dict[str, float]:
    """Total compute of each once `more` has been added to what its fit has seen."""
    return {name: fit.window[1] + more for name, fit in fits.items()}


def _likeliest_first(one: Candidate) -> tuple[float, float]:
    """By the chance to be best, where draws can tell chances apart (to 1 %); else by what is expected."""
    return -round(one.best, 2), -one.value


def _candidate(name: str, fit: Fit, budget: float, best: float, level: float) -> Candidate:
    lo, hi = fit.predict_interval(budget, level)
    return Candidate(
        name, fit.status, fit.window[1], budget, float(fit.predict(budget)), (float(lo), float(hi)), best
    )


def _budget(budgets: float | Mapping[str, float], name: str) -> float:
    value = budgets.get(name, math.nan) if isinstance(budgets, Mapping) else budgets
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name}: the budget is not a compute above zero")
    return float(value)


def _draws(fit: Fit, n: int, seed: int) -> Draws:
    return draws(fit, n, np.random.default_rng(seed))


def _level(fit: Fit, level: float | None) -> float:
    return fit.level if level is None else check_fraction("level", level)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _text(value: float | None, form: str) -> str:
    return "open" if value is None else format(value, form)
