"""Forecasts of real runs against what came.

    .venv/bin/python -m benchmarks.validate_real [--corpus DIR_OR_FILE]... [--axis AXIS]

A corpus is a CSV with the columns run, compute and reward (task is read if it is there), a Parquet file of
`scaling/data/corpus/`, or a folder of such files; by default what travels with Headroom. Each run is cut off at 3/8,
1/2 and 3/4 of its compute. What was forecast from there for the mean compute of its last eighth is held against the
mean of the evaluations in that eighth. Writes Markdown.
"""

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

import scaling
from benchmarks.validation import markdown
from scaling.curve import Array
from scaling.points import MIN_POINTS, InputError, check_pairs
from scaling.scores import interval_score
from scaling.table import TableError

CUTS = (0.375, 0.5, 0.75)
LAST = 0.125  # of the compute
LEVELS = (0.9, 0.5)
OWN = Path(scaling.__file__).parent / "data" / "corpus"
AXES = ("tokens", "device_hours", "flops")
COLUMNS = ("run", "compute", "reward")
RECENT = 5


@dataclass(frozen=True)
class Curve:
    """The evaluations of one run [n], by compute."""

    source: str
    task: str
    run: str
    compute: Array
    reward: Array

    def until(self, cut: float) -> tuple[Array, Array]:
        """Those up to that share of the compute."""
        early = self.compute <= cut * self.compute[-1]
        return self.compute[early], self.reward[early]

    @property
    def end(self) -> tuple[float, float]:
        """Mean compute and mean reward of the last eighth."""
        late = self.compute > (1.0 - LAST) * self.compute[-1]
        return float(self.compute[late].mean()), float(self.reward[late].mean())


@dataclass(frozen=True)
class Said:
    """A forecast of one number: its value, and an interval for each of LEVELS."""

    value: float
    intervals: tuple[tuple[float, float], ...]


Method = Callable[[Array, Array, float], Said | None]


def forecast(compute: Array, reward: Array, at: float) -> Said | None:
    """Forms averaged (`scaling.extrapolate`)."""
    said = [scaling.extrapolate(compute, reward, [at], level=level) for level in LEVELS]
    if said[0].status == "failed":
        return None
    return Said(float(said[0].value[0]), tuple((float(one.lo[0]), float(one.hi[0])) for one in said))


def eq1(compute: Array, reward: Array, at: float) -> Said | None:
    """Eq. 1 alone, with the interval of its curve."""
    fit = scaling.fit(compute, reward)
    if fit.params is None:
        return None
    ends = [fit.predict_interval(at, level) for level in LEVELS]
    return Said(float(fit.predict(at)), tuple((float(lo), float(hi)) for lo, hi in ends))


def last_five(compute: Array, reward: Array, at: float) -> Said:
    """The mean of the last five evaluations, with its t interval."""
    recent = reward[-RECENT:]
    mean, error = float(recent.mean()), float(recent.std(ddof=1)) / math.sqrt(len(recent))
    reach = [float(stdtrit(len(recent) - 1, 0.5 + 0.5 * level)) * error for level in LEVELS]
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


def judge(curves: Iterable[Curve], methods: dict[str, Method]) -> list[Judged]:
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


def table(title: str, judged: Sequence[Judged]) -> str:
    """A row for each cut and method."""
    header = [
        "from",
        "method",
        "runs",
        "without",
        "rmse",
        "bias",
        *(f"in {100 * x:g} %" for x in LEVELS),
        "interval score",
    ]
    rows = []
    for cut in CUTS:
        for method in dict.fromkeys(one.method for one in judged):
            mine = [one for one in judged if one.cut == cut and one.method == method]
            rows.append([f"{100 * cut:g} %", method, *_row(mine)])
    note = "rmse, bias (forecast - came), and the mean interval score of the 90 % interval, in pass rate."
    return markdown(title, note, header, rows)


def _row(judged: Sequence[Judged]) -> list[str]:
    known = [(one.came, one.said) for one in judged if one.said is not None]
    counts = [str(len(judged)), str(len(judged) - len(known))]
    if not known:
        return [*counts, *["-"] * (3 + len(LEVELS))]
    came = np.array([truth for truth, _ in known])
    error = np.array([said.value for _, said in known]) - came
    lo, hi = np.moveaxis(np.array([said.intervals for _, said in known]), -1, 0)
    inside = ((lo <= came[:, None]) & (came[:, None] <= hi)).mean(axis=0)
    score = interval_score(lo[:, 0], hi[:, 0], came, LEVELS[0]).mean()
    return [
        *counts,
        f"{math.sqrt((error**2).mean()):.4f}",
        f"{error.mean():+.4f}",
        *(f"{100 * share:.0f} %" for share in inside),
        f"{score:.4f}",
    ]


def read(path: Path, axis: str) -> list[Curve]:
    """The runs of a file or a folder of files. Raises TableError, which names file and row."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in (".csv", ".parquet"))
        if not files:
            raise TableError(f"{path}: no .csv and no .parquet file in it")
        return [curve for file in files for curve in read(file, axis)]
    try:
        rows = _parquet(path, axis) if path.suffix == ".parquet" else _csv(path)
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}") from None
    grouped: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for task, run, compute, reward in rows:
        grouped.setdefault((task, run), []).append((compute, reward))
    return [_curve(path, task, run, points) for (task, run), points in grouped.items()]


def _curve(path: Path, task: str, run: str, points: list[tuple[float, float]]) -> Curve:
    try:
        compute, reward = check_pairs(*zip(*points, strict=True), bounded=True)
    except InputError as error:
        raise TableError(f"{path}: run {run}: {error}") from None
    order = np.argsort(compute, kind="stable")
    return Curve(path.stem, task, run, compute[order], reward[order])


def _csv(path: Path) -> list[tuple[str, str, float, float]]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise TableError(f"{path}: there is no column {missing[0]!r}")
        rows = []
        for number, row in enumerate(reader, start=1):
            try:
                rows.append(
                    (row.get("task") or path.stem, row["run"], float(row["compute"]), float(row["reward"]))
                )
            except (TypeError, ValueError):
                raise TableError(f"{path}: row {number}: compute or reward is not a number") from None
    if not rows:
        raise TableError(f"{path}: no rows")
    return rows


def _parquet(path: Path, axis: str) -> list[tuple[str, str, float, float]]:
    """Rows of a file of the corpus on one axis; runs that were not measured on it come on the first that they have."""
    from pyarrow import parquet

    rows = []
    for row in parquet.read_table(path).to_pylist():
        compute = next(row[name] for name in (axis, *AXES) if row.get(name) is not None)
        if compute > 0:
            rows.append((row["task"], row["run"], compute, row["reward"]))
    return rows


def of_corpus(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    work: Callable[[list[Curve], argparse.Namespace], None],
) -> int:
    """Status after `work` on the curves that --corpus and --axis name; a file that cannot be read ends in one line."""
    parser.add_argument("--corpus", type=Path, action="append", metavar="DIR_OR_FILE")
    parser.add_argument("--axis", choices=AXES, default=AXES[0], help="of the runs of our own corpus")
    options = parser.parse_args(arguments)
    try:
        curves = [curve for path in options.corpus or [OWN] for curve in read(path, options.axis)]
    except TableError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    work(curves, options)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables: of each source, of each task where there are several, and of all."""
    parser = argparse.ArgumentParser(prog="validate_real", description=__doc__.splitlines()[0])
    return of_corpus(parser, arguments, lambda curves, _: _print_tables(curves))


def _print_tables(curves: Sequence[Curve]) -> None:
    judged = judge(curves, METHODS)
    groups = {(curve.source, curve.task): f"{curve.source}, {curve.task}" for curve in curves}
    if len(groups) > 1:
        for group, title in groups.items():
            print(table(title, [one for one in judged if (one.curve.source, one.curve.task) == group]))
    print(table(f"All {len(curves)} runs", judged))


if __name__ == "__main__":
    sys.exit(main())
