"""Parquet files, one batch of rows at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from webapp.interfaces.imports.readers import table
from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Options, Preview

BATCH_ROWS = 1000
MAX_ROW_GROUP = 2 * 1024**3  # bytes, unpacked
MAX_COLUMNS = 20_000


def read(path: Path | str, options: Options) -> list[FoundRun]:
    return table.found_runs(ParquetTable(Path(path)), options)


def preview(path: Path, options: Options) -> Preview:
    return table.preview(ParquetTable(path), options)


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
                self.file, None, f"Two columns have one name, or there are more than {MAX_COLUMNS}."
            )
        if left_out and only is None:
            self.notes.append(f"Columns that are no plain values are left out: {', '.join(left_out[:10])}.")
        self.columns = tuple(name for name in usable if name)

    def _row_groups(self, metadata: pq.FileMetaData) -> list[int]:
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        for number, group in enumerate(groups):
            if group.total_byte_size > MAX_ROW_GROUP or group.num_rows < 0:
                raise BadSource(self.file, None, f"Row group {number} is larger than {MAX_ROW_GROUP} bytes.")
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


class _said:
    """What pyarrow says of a broken file, as BadSource."""

    def __init__(self, file: str, row: int | None) -> None:
        self.file, self.row = file, row

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pa.ArrowException | OSError | ValueError | OverflowError | MemoryError):
            line = None if self.row is None else self.row + 1
            if isinstance(error, MemoryError):  # Arrow's own is one, too
                raise BadSource(
                    self.file, line, f"{BATCH_ROWS} rows of it take more memory than a reader may have."
                )
            first = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise BadSource(self.file, line, f"This Parquet file cannot be read: {first}") from None


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
