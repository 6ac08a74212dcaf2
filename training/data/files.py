"""Rows of JSONL, JSON and Parquet files, or of a folder of them, each with its number in its file.

All problems of a file or folder, each row checked; kept in memory until the files change.
"""

import json
import logging
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from training.data.base import DataError, Problem, Row, kind_of

SUFFIXES = (".jsonl", ".json", ".parquet")
_BATCH_ROWS = 256  # rows of a Parquet file in memory at a time
log = logging.getLogger("training")
Reader = Callable[[Row], Problem]
Stamp = tuple[tuple[str, int, int], ...]


def data_files(path: Path) -> list[Path]:
    """The file itself, or a folder's shards in the order of their names. DataError where there is none."""
    if path.is_dir():
        shards = [
            file for file in sorted(path.iterdir()) if file.suffix in SUFFIXES and file.name[0] not in "._"
        ]
        if not shards:
            raise DataError(path, f"the folder has no {', '.join(SUFFIXES)} file")
        return shards
    if not path.is_file():
        raise DataError(path, "no such file")
    if path.suffix not in SUFFIXES:
        raise DataError(path, f"must end in {', '.join(SUFFIXES)}")
    return [path]


def read_rows(path: Path) -> Iterator[Row]:
    """All rows. Numbers count from 1 in each file: lines of .jsonl, items of .json, rows of .parquet."""
    readers = {".jsonl": _jsonl, ".json": _json, ".parquet": _parquet}
    for file in data_files(path):
        try:
            for number, value in readers[file.suffix](file):
                if not isinstance(value, dict):
                    raise DataError(file, f"must be an object, not {kind_of(value)}", row=number)
                yield Row(value, file, number)
        except OSError as error:
            raise DataError(file, f"cannot be read: {error.strerror or error}") from None


def _jsonl(file: Path) -> Iterator[tuple[int, Any]]:
    """Blank lines are left out and counted."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield number, json.loads(line.decode())
            except UnicodeDecodeError:
                raise DataError(file, "is not UTF-8", row=number) from None
            except json.JSONDecodeError as error:
                raise DataError(
                    file, f"is not JSON: {error.msg} (column {error.colno})", row=number
                ) from None
            except (ValueError, RecursionError):
                raise DataError(file, "is not JSON that can be read", row=number) from None


def _json(file: Path) -> Iterator[tuple[int, Any]]:
    try:
        value = json.loads(file.read_bytes().decode())
    except UnicodeDecodeError:
        raise DataError(file, "is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise DataError(file, f"is not JSON: {error.msg}", row=error.lineno) from None
    except (ValueError, RecursionError):
        raise DataError(file, "is not JSON that can be read") from None
    if not isinstance(value, list):
        raise DataError(
            file, f"must hold a list of objects, not {kind_of(value)}; one object a line is .jsonl"
        )
    yield from enumerate(value, start=1)


def _parquet(file: Path) -> Iterator[tuple[int, Any]]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=_BATCH_ROWS):
                for value in batch.to_pylist():
                    number += 1
                    yield number, value
    except pyarrow.ArrowException as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(file, f"is not Parquet that can be read: {reason}") from None


def read_problems(path: Path, read: Reader, *, leave_out_broken: bool = False) -> tuple[Problem, ...]:
    """The problems in the files' order. DataError names the first broken row.

    With `leave_out_broken` rows with a wrong field are left out and counted in the log; an error where all are.
    """
    files = [(file, file.stat()) for file in data_files(path)]
    stamp = tuple((str(file), stat.st_mtime_ns, stat.st_size) for file, stat in files)
    return _read(path, read, leave_out_broken, stamp)


@lru_cache(maxsize=8)
def _read(path: Path, read: Reader, leave_out_broken: bool, stamp: Stamp) -> tuple[Problem, ...]:
    """`stamp` (name, time of change and size of each file) makes a changed file another key."""
    problems: list[Problem] = []
    broken: list[DataError] = []
    for row in read_rows(path):
        try:
            problems.append(read(row))
        except DataError as error:
            if not leave_out_broken:
                raise
            broken.append(error)
    if not problems:
        raise broken[0] if broken else DataError(path, "has no rows")
    if broken:
        log.warning("%d of %d rows are left out: %s", len(broken), len(broken) + len(problems), broken[0])
    return tuple(problems)
