"""Files of tables. CSV: comma, semicolon or tab, UTF-8, read line by line.

What W&B's charts give out as CSV: `Step`, then `RUN - METRIC` of each run, with its `__MIN` and `__MAX`.

Parquet files, one batch of rows at a time.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from webapp.interfaces.imports.readers.building import shown
from webapp.interfaces.imports.readers.rows import MAX_LINE, BadSource, FoundRun, Lines, Options
from webapp.interfaces.imports.readers.table import Table, found_runs
from webapp.interfaces.tracking.translate import GLOBAL_STEP

HISTORY = ("_step", "_timestamp", "_runtime")  # of W&B's
SAMPLED = "run.history() gives a sample unless it is asked for more; scan_history() gives every row."
SEPARATORS = ",;\t"
MAX_COLUMNS = 20_000
MAX_ROW_LINES = 10_000  # a cell in quotes may have several
csv.field_size_limit(MAX_LINE)


def csv_table(path: Path) -> Table:
    """Also of a chart of W&B."""
    found = CsvTable(path)
    return ChartTable(found) if is_chart(found.columns) else found


def read_history(path: Path, options: Options) -> list[FoundRun]:
    """What W&B gives out of a run's history: `run.history()` or `run.scan_history()` as CSV or Parquet.

    Raises BadSource where it is none, and where options name no column that it has.
    """
    with path.open("rb") as opened:
        source: Table = ParquetTable(path) if opened.read(4) == b"PAR1" else CsvTable(path)
    missing = [name for name in HISTORY if name not in source.columns]
    if missing:
        raise BadSource(source.file, None, f"This is no history of W&B: it has no column {missing[0]}.")
    has_global_step = GLOBAL_STEP in source.columns
    own = {"step": GLOBAL_STEP if has_global_step else "_step", "time": "_timestamp", "elapsed": "_runtime"}
    run = next((name for name in ("run", "run_id", "run_name") if name in source.columns), None)
    named = {"run": run} if run else {}
    options = options.model_copy(update={"columns": {**own, **named, **options.columns}})
    source.notes.append(SAMPLED)
    return found_runs(source, options, carry_step=has_global_step, hidden=HISTORY)


class CsvTable:
    """A file whose first line names the columns. A position is (byte, line) of a row. Raises BadSource."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, path.name
        self.notes: list[str] = []
        with path.open("rb") as opened:
            header = next(Lines(self.file, opened), "")
            unquoted = "".join(header.split('"')[::2])
            self.separator = max(SEPARATORS, key=unquoted.count)
            opened.seek(0)
            lines = Lines(self.file, opened)
            _, names = next(self._parsed(lines), (None, []))
            self._start = (lines.offset, lines.line)
        self.columns = self._checked([name.strip() for name in names])

    def _checked(self, names: Sequence[str]) -> tuple[str, ...]:
        if not any(names):
            raise BadSource(self.file, 1, "The first line has to name the columns, and is empty.")
        if len(names) > MAX_COLUMNS:
            raise BadSource(self.file, 1, f"There are more than {MAX_COLUMNS:,} columns.")
        name, times = Counter(filter(None, names)).most_common(1)[0]
        if times > 1:
            raise BadSource(self.file, 1, f"Two columns are called {shown(name)}.")
        unnamed = [str(position + 1) for position, name in enumerate(names) if not name]
        if unnamed:
            self.notes.append(f"Columns without a name are left out: {', '.join(unnamed[:10])}.")
        return tuple(names)

    def rows(self, position: tuple[int, int] | None = None) -> Iterator[tuple[int, Any, Sequence[str]]]:
        offset, line = position or self._start
        with self.path.open("rb") as opened:
            opened.seek(offset)
            for position, cells in self._parsed(Lines(self.file, opened, offset, line)):
                first = position[1] + 1
                if cells and len(cells) != len(self.columns):
                    reason = f"This row has {len(cells)} cells; there are {len(self.columns)} columns."
                    raise BadSource(self.file, first, reason)
                if cells:  # else the line is empty
                    yield first, position, cells

    def _parsed(self, lines: Lines) -> Iterator[tuple[tuple[int, int], list[str]]]:
        """(position, cells) of each row. Raises BadSource."""
        begin, before = lines.offset, lines.line

        def of_row() -> Iterator[str]:
            for line in lines:
                if lines.offset - begin > MAX_LINE or lines.line - before > MAX_ROW_LINES:
                    reason = f"This row is longer than {MAX_LINE:,} bytes or {MAX_ROW_LINES:,} lines."
                    raise BadSource(self.file, before + 1, reason)
                yield line

        try:
            for cells in csv.reader(of_row(), delimiter=self.separator, strict=True):
                yield (begin, before), cells
                begin, before = lines.offset, lines.line
        except csv.Error as error:
            raise BadSource(self.file, before + 1, f"This is no row of a CSV file: {error}.") from None


SEPARATOR = " - "  # the last one: names of runs may have it
BOUNDS = ("__MIN", "__MAX")  # of what a pixel of the chart stands for
RUN = "run"


class ChartTable:
    """The same values as a table with a column of runs, one row for each run that has a value at a step."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.file, self.notes = table.file, table.notes
        self._x, *cells = table.columns
        own = {RUN, self._x, *(("_step",) if self._x == "Step" else ())}  # what the first column says, too
        self._places: dict[str, dict[str, int]] = {}
        for place, name in enumerate(cells, start=1):
            run, _, metric = name.rpartition(SEPARATOR)
            if not name.endswith(BOUNDS) and metric not in own:
                self._places.setdefault(run, {})[metric] = place
        self._metrics = tuple(dict.fromkeys(metric for own in self._places.values() for metric in own))
        self.columns = (RUN, self._x, *self._metrics)

    def rows(self, position: Any = None) -> Iterator[tuple[int, Any, Sequence[Any]]]:
        for line, place, cells in self._table.rows(position):
            for run, own in self._places.items():
                values = [cells[own[metric]] if metric in own else "" for metric in self._metrics]
                if any(values):
                    yield line, place, (run, cells[0], *values)


def is_chart(columns: Sequence[str]) -> bool:
    """Whether all columns but the first are of one run each, and come with their bounds."""
    others = set(columns[1:])
    plain = [name for name in others if not name.endswith(BOUNDS)]
    return bool(plain) and all(
        SEPARATOR in name and {f"{name}{bound}" for bound in BOUNDS} <= others for name in plain
    )


BATCH_ROWS = 1000
MAX_ROW_GROUP = 2 * 1024**3  # bytes, unpacked


class ParquetTable:
    """A file of plain columns; nested ones are left out, and said. A position is the row's number from 0.

    only: the columns to read; None: all. Raises BadSource.
    """

    def __init__(self, path: Path, file: str = "", only: Sequence[str] | None = None) -> None:
        self.path, self.file = path, file or path.name
        self.notes: list[str] = []
        with self._opened() as opened:
            schema, self._sizes = opened.schema_arrow, self._row_groups(opened.metadata)
        usable = [
            each.name for each in schema if _is_plain(each.type) and (only is None or each.name in only)
        ]
        left_out = [each.name for each in schema if not _is_plain(each.type)]
        if len(schema) > MAX_COLUMNS or len(set(schema.names)) < len(schema):
            raise BadSource(
                self.file, None, f"Two columns have one name, or there are more than {MAX_COLUMNS:,}."
            )
        if left_out and only is None:
            self.notes.append(f"Columns that are no plain values are left out: {', '.join(left_out[:10])}.")
        self.columns = tuple(name for name in usable if name)

    def _row_groups(self, metadata: pq.FileMetaData) -> list[int]:
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        for number, group in enumerate(groups):
            if group.total_byte_size > MAX_ROW_GROUP or group.num_rows < 0:
                raise BadSource(
                    self.file, None, f"Row group {number} is larger than {MAX_ROW_GROUP:,} bytes."
                )
        return [group.num_rows for group in groups]

    def rows(self, position: int | None = None) -> Iterator[tuple[int, int, Sequence[Any]]]:
        first = position or 0
        begin = 0
        with self._opened() as opened:
            for number, size in enumerate(self._sizes):
                if begin + size > first:
                    yield from self._of_group(opened, number, begin, first)
                begin += size

    def _of_group(
        self, opened: pq.ParquetFile, number: int, begin: int, first: int
    ) -> Iterator[tuple[int, int, Sequence[Any]]]:
        batches = opened.iter_batches(BATCH_ROWS, row_groups=[number], columns=list(self.columns))
        while True:
            with _said(self.file, begin):
                batch = next(batches, None)
                if batch is None:
                    return
                columns = [_values(batch.column(name)) for name in self.columns]
            for offset, cells in enumerate(zip(*columns, strict=True)):
                if begin + offset >= first:
                    yield begin + offset + 1, begin + offset, cells
            begin += batch.num_rows

    def _opened(self) -> pq.ParquetFile:
        with _said(self.file, None):
            return pq.ParquetFile(self.path, page_checksum_verification=True, pre_buffer=False)


@contextmanager
def _said(file: str, row: int | None) -> Iterator[None]:
    """What pyarrow says of a broken file, as BadSource."""
    line = None if row is None else row + 1
    try:
        yield
    except MemoryError:  # Arrow's own is one, too
        reason = f"{BATCH_ROWS:,} rows of it take more memory than a reader may have."
        raise BadSource(file, line, reason) from None
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise BadSource(file, line, f"This Parquet file cannot be read: {first}") from None


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    checks = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string, pa.types.is_large_string,
        pa.types.is_timestamp, pa.types.is_decimal, pa.types.is_null,
    )  # fmt: skip
    return any(check(kind) for check in checks)


def _values(column: pa.Array) -> list[Any]:
    """Python's; nanoseconds are cut to what its times can hold."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
    return column.to_pylist()
