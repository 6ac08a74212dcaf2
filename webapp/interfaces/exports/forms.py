"""Rows as CSV, JSONL or Parquet, written piece by piece: no form ever holds more than one piece of them."""

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.http import StreamingHttpResponse

from webapp.base.formats import harmless, utc

CELLS_A_PIECE = 200_000  # numbers that a piece of CSV, or a row group of Parquet, holds at most
ROWS_A_PIECE = 10_000
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
Row = Sequence[Any]


class ColumnType(StrEnum):
    """What a column holds."""

    WHOLE = "int64"
    NUMBER = "double"
    TEXT = "string"
    TIME = "time"  # of day and date, in UTC


Columns = Mapping[str, ColumnType]


def pieces(form: str, columns: Columns, rows: Iterable[Row]) -> Iterator[bytes]:
    """A table as CSV or Parquet, in pieces; `form` is "csv" or "parquet"."""
    return csv_pieces(columns, rows) if form == "csv" else parquet_pieces(columns, rows)


def csv_pieces(columns: Columns, rows: Iterable[Row]) -> Iterator[bytes]:
    """A missing value is an empty cell, a time is in UTC, and no cell is one that a spreadsheet would compute."""
    yield _csv([[harmless(name) for name in columns]])
    for piece in in_pieces(rows, len(columns)):
        yield _csv([[harmless(_cell(value)) for value in row] for row in piece])


def jsonl_pieces(items: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """One JSON object a line."""
    for piece in in_pieces(items, 100):
        yield "".join(f"{as_json(item)}\n" for item in piece).encode()


def parquet_pieces(columns: Columns, rows: Iterable[Row]) -> Iterator[bytes]:
    """A row group a piece; the names of the columns are those of the metrics, letter by letter."""
    import pyarrow  # takes long to load, and only this form needs it
    from pyarrow import parquet

    schema = pyarrow.schema([(name, _parquet_type(pyarrow, kind)) for name, kind in columns.items()])
    sink = io.BytesIO()
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for piece in in_pieces(rows, len(columns)):
            by_column = zip(*piece, strict=True)
            arrays = [
                pyarrow.array(values, kind) for values, kind in zip(by_column, schema.types, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            yield _taken(sink)
    yield _taken(sink)  # the footer


def as_json(value: Any) -> str:
    """JSON on one line; a time is in UTC."""
    return json.dumps(value, default=_cell, separators=(",", ":"), ensure_ascii=False)


def in_pieces(rows: Iterable[Any], width: int) -> Iterator[list[Any]]:
    """Rows of `width` cells in lists that are small enough to be held."""
    size = max(1, min(ROWS_A_PIECE, CELLS_A_PIECE // max(1, width)))
    rest = iter(rows)
    while piece := list(itertools.islice(rest, size)):
        yield piece


def download(form: str, name: str, content: Iterator[bytes]) -> StreamingHttpResponse:
    """The pieces as a file `name`.`form` that is sent while it is made."""
    response = StreamingHttpResponse(content, content_type=TYPES[form])
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    return response


def _taken(sink: io.BytesIO) -> bytes:
    """What was written since the last time; where it stands in the file, Arrow counts itself."""
    found = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return found


def _csv(rows: Iterable[Row]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    return utc(value, exact=True) if isinstance(value, datetime) else value


def _parquet_type(pyarrow: Any, kind: ColumnType) -> Any:
    if kind is ColumnType.TIME:
        return pyarrow.timestamp("us", tz="UTC")
    return pyarrow.type_for_alias(kind.value)
