"""How good forecasts of finished runs would have been.

Each run is cut off at CUTS of its compute. What is forecast from there for the mean compute of its last eighth is held
against the mean of the evaluations in that eighth: errors, how often the intervals hold it, and the interval score
(`scaling.scores`), for the averaged forecast, for Eq. 1 alone and for repeating the last evaluations.

Finished runs to judge forecasts by: a CSV of anybody's, or Parquet files that say where they are from.

A CSV has the columns run, compute and reward, a Parquet file run, reward and one or more of AXES; both may have task,
recipe and seed, and tokens beside device-hours. The metadata of a Parquet file name PROVENANCE.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from scaling.curve import Array
from scaling.extrapolate import at_levels
from scaling.fitting import fit
from scaling.noise import problem
from scaling.points import MIN_POINTS, InputError, check_pairs, prepare, rising
from scaling.scores import interval_score, late_mean
from scaling.table import PARQUET, Columns, TableError, open_parquet, read_columns

OWN = Path(__file__).parent / "data" / "corpus"
AXES = ("tokens", "device_hours", "flops")
WORK = "tokens"  # what hours of compute were worth (`scaling.extrapolate`)
NAMES = ("task", "recipe", "seed")
PROVENANCE = ("source", "licence")
CUTS = (0.375, 0.5, 0.75)
LEVELS = (0.9, 0.5)
RECENT = 5


@dataclass(frozen=True)
class Curve:
    """The evaluations of one run [n], by compute; `source` is the file's name, and the task's where none is given.
    work: tokens [n], where they are known beside the compute."""

    source: str
    task: str
    run: str
    compute: Array
    reward: Array
    recipe: str = ""
    seed: str = ""
    work: Array | None = None

    def until(self, cut: float) -> "Curve":
        """Those up to that share of the compute."""
        early = self.compute <= cut * self.compute[-1]
        work = None if self.work is None else self.work[early]
        return replace(self, compute=self.compute[early], reward=self.reward[early], work=work)

    @property
    def end(self) -> tuple[float, float]:
        """Mean compute and mean reward of the last eighth."""
        at, came, _ = late_mean(self.compute, self.reward)
        return at, came


def read(path: Path, axis: str = AXES[0]) -> list[Curve]:
    """The runs of a file, or of every .csv and .parquet file of a folder; `axis` says which compute of Parquet files.

    Runs that were not measured on it come on the first that they have; what came before the first update (compute 0)
    is left out of Parquet files. Raises TableError, which names file and row.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in (".csv", ".parquet"))
        if not files:
            raise TableError(f"{path}: no .csv and no .parquet file in it")
        return [curve for file in files for curve in read(file, axis)]
    try:
        return list(_curves(path, axis))
    except TableError as error:
        raise TableError(f"{path}: {error}") from None


def _curves(path: Path, axis: str) -> Iterator[Curve]:
    if path.suffix.lower() in PARQUET:
        found = read_columns(path, ("run", "reward"), (*NAMES, *AXES))
        provenance(path)
        compute = _compute(found, axis)
    else:
        found = read_columns(path, ("run", "compute", "reward"), (*NAMES, WORK))
        compute = found.numbers("compute")
    if not found.rows:
        raise TableError("no rows")
    reward = found.numbers("reward")
    work = [0.0 if cell in (None, "") else cell for cell in found.cells.get(WORK, [None] * len(found.rows))]
    work = Columns({WORK: work}, found.rows).numbers(WORK)
    is_by_hours = axis == "device_hours" or path.suffix.lower() not in PARQUET
    runs: dict[tuple[str, ...], list[int]] = {}
    for k, row in enumerate(found.rows):
        if compute[k] is not None:
            runs.setdefault(_names(found, k, row, path.stem), []).append(k)
    for (task, run, recipe, seed), rows in runs.items():
        order, x, y = _points(
            [compute[k] for k in rows], [reward[k] for k in rows], [found.rows[k] for k in rows]
        )
        done = rising(np.array([work[rows[k]] for k in order])) if is_by_hours else None
        yield Curve(path.stem, task, run, x, y, recipe, seed, done)


def read_along(path: Path, column: str, axis: str = AXES[0]) -> tuple[list[Curve], list[float]]:
    """The runs of a file, and of each its number in `column`, which all of its rows must have. Raises TableError."""
    curves = read(path, axis)
    try:
        found = read_columns(path, ("run", column), NAMES)
        seen: dict[tuple[str, ...], float] = {}
        for k, (row, number) in enumerate(zip(found.rows, found.numbers(column), strict=True)):
            first = seen.setdefault(_names(found, k, row, path.stem), number)
            if first != number:
                raise TableError(
                    f"{row}: {column} is {number:g}, and {first:g} in another row of the same run"
                )
    except TableError as error:
        raise TableError(f"{path}: {error}") from None
    return curves, [seen[one.task, one.run, one.recipe, one.seed] for one in curves]


def provenance(path: Path) -> dict[str, str]:
    """What the metadata of a Parquet file say of PROVENANCE; TableError where they say nothing."""
    said = open_parquet(path).schema_arrow.metadata or {}
    found = {name: said.get(name.encode(), b"").decode() for name in PROVENANCE}
    for name, text in found.items():
        if not text.strip():
            raise TableError(f"no provenance: the metadata name no {name!r}")
    return found


def _compute(found: Columns, axis: str) -> list[Any]:
    """Of each row, None where it is 0."""
    if not (columns := [found.cells[name] for name in (axis, *AXES) if name in found.cells]):
        raise TableError(f"no column of compute: one of {', '.join(AXES)}")
    given = [next((cell for cell in row if cell is not None), None) for row in zip(*columns, strict=True)]
    numbers = Columns({"compute": given}, found.rows).numbers("compute")
    return [value if value != 0 else None for value in numbers]


def _names(found: Columns, k: int, row: str, source: str) -> tuple[str, ...]:
    """(task, run, recipe, seed) of a row."""
    run = found.cells["run"][k]
    if run is None or run == "":
        raise TableError(f"{row}: run is missing")
    task, recipe, seed = (_text(found.cells[name][k]) if name in found.cells else "" for name in NAMES)
    return task or source, str(run), recipe, seed


def _text(cell: object) -> str:
    return "" if cell is None else str(cell)


def _points(compute: list[float], reward: list[float], rows: list[str]) -> tuple[np.ndarray, Array, Array]:
    """Places in the order of compute, computes and rewards in it."""
    try:
        x, y = check_pairs(compute, reward, bounded=True)
    except InputError as error:
        raise TableError(f"{rows[error.row or 0]}: {error.reason}") from None
    order = np.argsort(x, kind="stable")
    return order, x[order], y[order]


@dataclass(frozen=True)
class IntervalForecast:
    """A forecast of one number: its value, and an interval for each level that was asked for."""

    value: float
    intervals: tuple[tuple[float, float], ...]


Method = Callable[[Curve, float], IntervalForecast | None]


def forecast(curve: Curve, at: float) -> IntervalForecast | None:
    """Forms averaged (`scaling.extrapolate`)."""
    said = at_levels(curve.compute, curve.reward, [at], LEVELS, work=curve.work)
    if said[0].status == "failed":
        return None
    return IntervalForecast(
        float(said[0].value[0]), tuple((float(one.lo[0]), float(one.hi[0])) for one in said)
    )


def eq1(
    compute: Array,
    reward: Array,
    at: float,
    levels: Sequence[float] = LEVELS,
    *,
    r0_observed: Sequence[float] | None = None,
) -> IntervalForecast | None:
    """Eq. 1 alone, with the interval of its curve for each of `levels`; None where it cannot be fitted."""
    found = fit(compute, reward, r0_observed=r0_observed)
    if found.params is None:
        return None
    ends = [found.predict_interval(at, level) for level in levels]
    return IntervalForecast(float(found.predict(at)), tuple((float(lo), float(hi)) for lo, hi in ends))


def mean_of_last(reward: Array, levels: Sequence[float]) -> IntervalForecast:
    """The mean of the last RECENT evaluations, with its t interval for each of `levels`."""
    recent = reward[-RECENT:]
    mean, error = float(recent.mean()), float(recent.std(ddof=1)) / math.sqrt(len(recent))
    reach = [float(stdtrit(len(recent) - 1, 0.5 + 0.5 * level)) * error for level in levels]
    return IntervalForecast(mean, tuple((mean - x, mean + x) for x in reach))


METHODS: dict[str, Method] = {
    "forecast": forecast,
    "Eq. 1": lambda curve, at: eq1(curve.compute, curve.reward, at),
    "last five": lambda curve, _: mean_of_last(curve.reward, LEVELS),
}


@dataclass(frozen=True)
class Judged:
    """One forecast and what came; `said` is None where there was no forecast."""

    curve: Curve
    cut: float
    method: str
    came: float
    said: IntervalForecast | None


def judge(curves: Iterable[Curve], methods: dict[str, Method] = METHODS) -> list[Judged]:
    """Each run at each cut by each method; a run with too few evaluations before a cut has no forecast there."""
    found = []
    for curve in curves:
        at, came = curve.end
        for cut in CUTS:
            early = curve.until(cut)
            for name, method in methods.items():
                said = method(early, at) if len(early.compute) >= MIN_POINTS else None
                found.append(Judged(curve, cut, name, came, said))
    return found


def refusals(curves: Iterable[Curve]) -> list[tuple[str, str, tuple[float, ...]]]:
    """(run, why it has no forecast, from which of CUTS) of those that have none somewhere."""
    found: dict[tuple[str, str], list[float]] = {}
    for curve in curves:
        for cut in CUTS:
            early = curve.until(cut)
            n = len(early.compute)
            few = (
                f"only {n} evaluation{'' if n == 1 else 's'} before the cut: at least {MIN_POINTS} are needed"
            )
            if why := few if n < MIN_POINTS else problem(prepare(early.compute, early.reward)):
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
