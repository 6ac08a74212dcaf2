"""Reading points from CSV, or from Parquet where pyarrow is installed; every refusal names the row."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PARQUET = (".parquet", ".pq")


class TableError(ValueError):
    """A file that cannot be read as points; the text is one line."""


@dataclass(frozen=True)
class Table:
    """Columns of numbers [n], and for each the row's name as a reader would find it in the file."""

    compute: list[float]
    reward: list[float]
    rows: list[str]
    stderr: list[float]  # empty where no column of standard errors was asked for


def read_points(path: Path, *, compute: str, reward: str, stderr: str | None = None) -> Table:
    """Columns of a CSV with a header (blank lines skipped), or of a file named .parquet or .pq.

    Raises TableError for a missing or unreadable file, a missing column, or a cell that is not a finite number.
    """
    names = (compute, reward) if stderr is None else (compute, reward, stderr)
    if path.suffix.lower() in PARQUET:
        return _read_parquet(path, names)
    lines = _records(path)
    if not lines:
        raise TableError("the file is empty")
    header = [name.strip() for name in lines[0][1]]
    at = [_position(header, name) for name in names]
    table = Table([], [], [], [])
    for number, (line, cells) in enumerate(lines[1:], start=1):
        row = f"row {number} (line {line})"
        found = [cells[k].strip() if k < len(cells) else "" for k in at]
        _append(table, found, names, row)
    return table


def _append(table: Table, cells: Sequence[object], names: Sequence[str], row: str) -> None:
    table.compute.append(_number(cells[0], names[0], row))
    table.reward.append(_number(cells[1], names[1], row))
    if len(names) == 3:
        table.stderr.append(_number(cells[2], names[2], row))
    table.rows.append(row)


def _read_parquet(path: Path, names: Sequence[str]) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise TableError("Parquet needs pyarrow, which is not installed; CSV works without") from None
    try:
        with path.open("rb") as file:
            whole = parquet.ParquetFile(file)
            for name in names:
                _position(whole.schema_arrow.names, name)  # refuses what is missing or there twice
            read = whole.read(columns=list(names))
    except OSError as error:
        raise TableError(error.strerror or "is not a Parquet file") from None
    except pyarrow.ArrowException:
        raise TableError("is not a Parquet file") from None
    table = Table([], [], [], [])
    for number, cells in enumerate(
        zip(*(read.column(name).to_pylist() for name in names), strict=True), start=1
    ):
        _append(table, cells, names, f"row {number}")
    return table


def _records(path: Path) -> list[tuple[int, list[str]]]:
    """(line number, cells) of every line that is not blank."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            return [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except OSError as error:
        raise TableError(error.strerror or "cannot be read") from None
    except (UnicodeDecodeError, csv.Error):
        raise TableError("is not a CSV text file in UTF-8") from None


def _position(header: list[str], name: str) -> int:
    if header.count(name) > 1:
        raise TableError(f"more than one column {name!r}")
    if name not in header:
        raise TableError(f"no column {name!r}; the columns are {', '.join(map(repr, header))[:200]}")
    return header.index(name)


def _number(cell: object, name: str, row: str) -> float:
    if cell is None or cell == "":
        raise TableError(f"{row}: {name} is missing")
    try:
        value = float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TableError(f"{row}: {name} {str(cell)[:40]!r} is not a number") from None
    if not math.isfinite(value):
        raise TableError(f"{row}: {name} is {str(cell)[:40]}, not a finite number")
    return value
