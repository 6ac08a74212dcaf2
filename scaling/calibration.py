"""How good forecasts of finished runs would have been.

Each run is cut off at CUTS of its compute. What is forecast from there for the mean compute of its last eighth is held
against the mean of the evaluations in that eighth: errors, how often the intervals hold it, and the interval score
(`scaling.scores`), for the averaged forecast, for Eq. 1 alone and for repeating the last evaluations.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from scaling.corpus import Curve
from scaling.curve import Array
from scaling.extrapolate import at_levels
from scaling.fitting import fit
from scaling.points import MIN_POINTS, prepare
from scaling.saturates import problem
from scaling.scores import interval_score

CUTS = (0.375, 0.5, 0.75)
LEVELS = (0.9, 0.5)
RECENT = 5


@dataclass(frozen=True)
class Said:
    """A forecast of one number: its value, and an interval for each level that was asked for."""

    value: float
    intervals: tuple[tuple[float, float], ...]


Method = Callable[[Array, Array, float], Said | None]


def forecast(compute: Array, reward: Array, at: float) -> Said | None:
    """Forms averaged (`scaling.extrapolate`)."""
    said = at_levels(compute, reward, [at], LEVELS)
    if said[0].status == "failed":
        return None
    return Said(float(said[0].value[0]), tuple((float(one.lo[0]), float(one.hi[0])) for one in said))


def eq1(
    compute: Array,
    reward: Array,
    at: float,
    levels: Sequence[float] = LEVELS,
    *,
    r0_observed: Sequence[float] | None = None,
) -> Said | None:
    """Eq. 1 alone, with the interval of its curve for each of `levels`; None where it cannot be fitted."""
    found = fit(compute, reward, r0_observed=r0_observed)
    if found.params is None:
        return None
    ends = [found.predict_interval(at, level) for level in levels]
    return Said(float(found.predict(at)), tuple((float(lo), float(hi)) for lo, hi in ends))


def last_five(compute: Array, reward: Array, at: float) -> Said:
    """The mean of the last five evaluations, whatever comes."""
    return mean_of_last(reward, LEVELS)


def mean_of_last(reward: Array, levels: Sequence[float]) -> Said:
    """The mean of the last RECENT evaluations, with its t interval for each of `levels`."""
    recent = reward[-RECENT:]
    mean, error = float(recent.mean()), float(recent.std(ddof=1)) / math.sqrt(len(recent))
    reach = [float(stdtrit(len(recent) - 1, 0.5 + 0.5 * level)) * error for level in levels]
    return Said(mean, tuple((mean - x, mean + x) for x in reach))


METHODS: dict[str, Method] = {"forecast": forecast, "Eq. 1": eq1, "last five": last_five}


@dataclass(frozen=True)
class Judged:
    """One forecast and what came; `said` is None where there was no forecast."""

    curve: Curve
    cut: float
    method: str
    came: float
    said: Said | None


def judge(curves: Iterable[Curve], methods: dict[str, Method] = METHODS) -> list[Judged]:
    """Each run at each cut by each method; a run with too few evaluations before a cut has no forecast there."""
    found = []
    for curve in curves:
        at, came = curve.end
        for cut in CUTS:
            early = curve.until(cut)
            for name, method in methods.items():
                said = method(*early, at) if len(early[0]) >= MIN_POINTS else None
                found.append(Judged(curve, cut, name, came, said))
    return found


def refusals(curves: Iterable[Curve]) -> list[tuple[str, str, tuple[float, ...]]]:
    """(run, why it has no forecast, from which of CUTS) of those that have none somewhere."""
    found: dict[tuple[str, str], list[float]] = {}
    for curve in curves:
        for cut in CUTS:
            early = curve.until(cut)
            n = len(early[0])
            few = f"only {n} evaluations before the cut: at least {MIN_POINTS} are needed"
            if why := few if n < MIN_POINTS else problem(prepare(*early)):
                found.setdefault((curve.run, why), []).append(cut)
    return [(run, why, tuple(cuts)) for (run, why), cuts in found.items()]


@dataclass(frozen=True)
class Row:
    """One method from one cut: of `runs`, `without` had no forecast; the rest is of the others, None without any.

    rmse, bias (forecast - came) and interval_score (mean, of LEVELS[0]) in pass rate; inside: share of what came that
    lay in the interval, for each of LEVELS.
    """

    cut: float
    method: str
    runs: int
    without: int
    rmse: float | None
    bias: float | None
    inside: tuple[float, ...] | None
    interval_score: float | None


def rows(judged: Sequence[Judged]) -> list[Row]:
    """One for each cut and method."""
    methods = list(dict.fromkeys(one.method for one in judged))
    return [
        _row(cut, method, [one for one in judged if (one.cut, one.method) == (cut, method)])
        for cut in CUTS
        for method in methods
    ]


def _row(cut: float, method: str, judged: Sequence[Judged]) -> Row:
    known = [(one.came, one.said) for one in judged if one.said is not None]
    without = len(judged) - len(known)
    if not known:
        return Row(cut, method, len(judged), without, None, None, None, None)
    came = np.array([truth for truth, _ in known])
    error = np.array([said.value for _, said in known]) - came
    lo, hi = np.moveaxis(np.array([said.intervals for _, said in known]), -1, 0)
    inside = ((lo <= came[:, None]) & (came[:, None] <= hi)).mean(axis=0)
    score = float(interval_score(lo[:, 0], hi[:, 0], came, LEVELS[0]).mean())
    rmse = math.sqrt(float((error**2).mean()))
    return Row(cut, method, len(judged), without, rmse, float(error.mean()), tuple(inside.tolist()), score)


@dataclass(frozen=True)
class Group:
    """Rows of the runs of one task of one file (of all: task and source are None)."""

    source: str | None
    task: str | None
    runs: int
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        every = f"All {self.runs} runs" if self.runs != 1 else "1 run"
        return every if self.task is None else f"{self.source}, {self.task}"


def calibrate(curves: Sequence[Curve]) -> list[Group]:
    """A group for each task of each file, where there are several, and one of all runs."""
    judged = judge(curves)
    names = list(dict.fromkeys((curve.source, curve.task) for curve in curves))
    groups = []
    for source, task in names if len(names) > 1 else ():
        mine = [one for one in judged if (one.curve.source, one.curve.task) == (source, task)]
        count = sum((curve.source, curve.task) == (source, task) for curve in curves)
        groups.append(Group(source, task, count, tuple(rows(mine))))
    return [*groups, Group(None, None, len(curves), tuple(rows(judged)))]
