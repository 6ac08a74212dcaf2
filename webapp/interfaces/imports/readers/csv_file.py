"""CSV files: comma, semicolon or tab, UTF-8, read line by line."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from webapp.interfaces.imports.readers import table
from webapp.interfaces.imports.readers.building import shown
from webapp.interfaces.imports.readers.found import MAX_LINE, Lines
from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Options, Preview
from webapp.interfaces.imports.readers.wandb_chart import ChartTable, is_chart

SEPARATORS = ",;\t"
MAX_COLUMNS = 20_000
MAX_ROW_LINES = 10_000  # a cell in quotes may have several
csv.field_size_limit(MAX_LINE)


def read(path: Path | str, options: Options) -> list[FoundRun]:
    return table.found_runs(_table(Path(path)), options)


def preview(path: Path, options: Options) -> Preview:
    return table.preview(_table(path), options)


def _table(path: Path) -> table.Table:
    found = CsvTable(path)
    return ChartTable(found) if is_chart(found.columns) else found


class CsvTable:
    """A file whose first line names the columns. A position is (byte, line) of a row. Raises BadSource."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, path.name
        self.notes: list[str] = []
        with path.open("rb") as opened:
            lines = Lines(self.file, opened)
            header = next(lines, "")
            self.separator = max(SEPARATORS, key=lambda each: _count_outside_quotes(header, each))
            opened.seek(0)
            lines = Lines(self.file, opened)
            names = next(self._parsed(lines), [])
            self._start = (lines.offset, lines.line)
        self.columns = self._checked([name.strip() for name in names])

    def _checked(self, names: Sequence[str]) -> tuple[str, ...]:
        if not any(names):
            raise BadSource(self.file, 1, "The first line has to name the columns, and is empty.")
        if len(names) > MAX_COLUMNS:
            raise BadSource(self.file, 1, f"There are more than {MAX_COLUMNS} columns.")
        for position, name in enumerate(names):
            if name and name in names[:position]:
                raise BadSource(self.file, 1, f"Two columns are called {shown(name)}.")
        unnamed = [str(position + 1) for position, name in enumerate(names) if not name]
        if unnamed:
            self.notes.append(f"Columns without a name are left out: {', '.join(unnamed[:10])}.")
        return tuple(names)

    def rows(self, position: tuple[int, int] | None = None) -> Iterator[tuple[int, Any, Sequence[str]]]:
        offset, line = position or self._start
        with self.path.open("rb") as opened:
            opened.seek(offset)
            lines = Lines(self.file, opened, offset, line)
            parsed = self._parsed(lines)
            while True:
                position = (lines.offset, lines.line)
                cells = next(parsed, None)
                if cells is None:
                    return
                if not cells:  # an empty line
                    continue
                if len(cells) != len(self.columns):
                    reason = f"This row has {len(cells)} cells; there are {len(self.columns)} columns."
                    raise BadSource(self.file, position[1] + 1, reason)
                yield position[1] + 1, position, cells

    def _parsed(self, lines: Lines) -> Iterator[list[str]]:
        begin = lines.offset

        def of_row() -> Iterator[str]:
            for line in lines:
                if lines.offset - begin > MAX_LINE or lines.line - first >= MAX_ROW_LINES:
                    reason = f"This row is longer than {MAX_LINE} bytes or {MAX_ROW_LINES} lines."
                    raise BadSource(self.file, first, reason)
                yield line

        reader = csv.reader(of_row(), delimiter=self.separator, strict=True)
        while True:
            first, begin = lines.line + 1, lines.offset
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise BadSource(self.file, first, f"This is no row of a CSV file: {error}.") from None
            yield cells


def _count_outside_quotes(header: str, separator: str) -> int:
    return sum(part.count(separator) for part in header.split('"')[::2])
