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
class Columns:
    """Cells of a file by column, each [n]: text of a CSV, values of Parquet; and each row's name, as of `Table`."""

    cells: dict[str, list]
    rows: list[str]

    def numbers(self, name: str) -> list[float]:
        """TableError, which names the row, for a cell that is not a finite number."""
        return [_number(cell, name, row) for cell, row in zip(self.cells[name], self.rows, strict=True)]


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
    found = read_columns(path, names)
    numbers = [found.numbers(name) for name in names]
    return Table(numbers[0], numbers[1], found.rows, numbers[2] if stderr is not None else [])


def read_columns(path: Path, names: Sequence[str], optional: Sequence[str] = ()) -> Columns:
    """Columns `names`, and those of `optional` that are there, of a CSV with a header (blank lines skipped) or of a
    file named .parquet or .pq. Raises TableError for a missing or unreadable file or column."""
    if path.suffix.lower() in PARQUET:
        return _read_parquet(path, names, optional)
    if not (lines := _records(path)):
        raise TableError("the file is empty")
    header = [name.strip() for name in lines[0][1]]
    at = {name: _position(header, name) for name in _wanted(header, names, optional)}
    cells = {name: [row[k].strip() if k < len(row) else "" for _, row in lines[1:]] for name, k in at.items()}
    return Columns(
        cells, [f"row {number} (line {line})" for number, (line, _) in enumerate(lines[1:], start=1)]
    )


def _wanted(header: Sequence[str], names: Sequence[str], optional: Sequence[str]) -> list[str]:
    return [*names, *(name for name in optional if name in header)]


def _read_parquet(path: Path, names: Sequence[str], optional: Sequence[str]) -> Columns:
    whole = open_parquet(path)
    header = whole.schema_arrow.names
    wanted = _wanted(header, names, optional)
    for name in wanted:
        _position(header, name)  # refuses what is missing or there twice
    read = whole.read(columns=wanted)
    cells = {name: read.column(name).to_pylist() for name in wanted}
    return Columns(cells, [f"row {number}" for number in range(1, read.num_rows + 1)])


def open_parquet(path: Path):
    """pyarrow's ParquetFile, in memory. Raises TableError."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise TableError("Parquet needs pyarrow, which is not installed; CSV works without") from None
    try:
        return parquet.ParquetFile(pyarrow.BufferReader(path.read_bytes()))
    except OSError as error:
        raise TableError(error.strerror or "is not a Parquet file") from None
    except pyarrow.ArrowException:
        raise TableError("is not a Parquet file") from None


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
