"""Reading a CSV of points; every refusal names the row."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path


class TableError(ValueError):
    """A file that cannot be read as points; the text is one line."""


@dataclass(frozen=True)
class Table:
    """Columns of numbers [n], and for each the row's name as a reader would find it in the file."""

    compute: list[float]
    reward: list[float]
    rows: list[str]


def read_points(path: Path, *, compute: str, reward: str) -> Table:
    """Two columns of a CSV with a header, blank lines skipped.

    Raises TableError for a missing or unreadable file, a missing column, or a cell that is not a finite number.
    """
    lines = _records(path)
    if not lines:
        raise TableError("the file is empty")
    header = [name.strip() for name in lines[0][1]]
    at = [_position(header, name) for name in (compute, reward)]
    table = Table([], [], [])
    for number, (line, cells) in enumerate(lines[1:], start=1):
        row = f"row {number} (line {line})"
        table.compute.append(_number(cells, at[0], compute, row))
        table.reward.append(_number(cells, at[1], reward, row))
        table.rows.append(row)
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


def _number(cells: list[str], at: int, name: str, row: str) -> float:
    text = cells[at].strip() if at < len(cells) else ""
    if not text:
        raise TableError(f"{row}: {name} is missing")
    try:
        value = float(text)
    except ValueError:
        raise TableError(f"{row}: {name} {text[:40]!r} is not a number") from None
    if not math.isfinite(value):
        raise TableError(f"{row}: {name} is {text[:40]}, not a finite number")
    return value
