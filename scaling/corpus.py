"""Finished runs to judge forecasts by: a CSV of anybody's, or Parquet files that say where they are from.

A CSV has the columns run, compute and reward, a Parquet file run, reward and one or more of AXES; both may have task,
recipe and seed. The metadata of a Parquet file name PROVENANCE.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scaling.curve import Array
from scaling.points import InputError, check_pairs
from scaling.scores import late_mean
from scaling.table import PARQUET, Columns, TableError, open_parquet, read_columns

OWN = Path(__file__).parent / "data" / "corpus"
AXES = ("tokens", "device_hours", "flops")
NAMES = ("task", "recipe", "seed")
PROVENANCE = ("source", "licence")


@dataclass(frozen=True)
class Curve:
    """The evaluations of one run [n], by compute; `source` is the file's name, and the task's where none is given."""

    source: str
    task: str
    run: str
    compute: Array
    reward: Array
    recipe: str = ""
    seed: str = ""

    def until(self, cut: float) -> tuple[Array, Array]:
        """Those up to that share of the compute."""
        early = self.compute <= cut * self.compute[-1]
        return self.compute[early], self.reward[early]

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
        found = read_columns(path, ("run", "compute", "reward"), NAMES)
        compute = found.numbers("compute")
    if not found.rows:
        raise TableError("no rows")
    reward = found.numbers("reward")
    runs: dict[tuple[str, ...], list[int]] = {}
    for k, row in enumerate(found.rows):
        if compute[k] is not None:
            runs.setdefault(_names(found, k, row, path.stem), []).append(k)
    for (task, run, recipe, seed), rows in runs.items():
        points = _points([compute[k] for k in rows], [reward[k] for k in rows], [found.rows[k] for k in rows])
        yield Curve(path.stem, task, run, *points, recipe, seed)


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
    columns = [found.cells[name] for name in (axis, *AXES) if name in found.cells]
    if not columns:
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


def _points(compute: list[float], reward: list[float], rows: list[str]) -> tuple[Array, Array]:
    try:
        x, y = check_pairs(compute, reward, bounded=True)
    except InputError as error:
        raise TableError(f"{rows[error.row or 0]}: {error.reason}") from None
    order = np.argsort(x, kind="stable")
    return x[order], y[order]
