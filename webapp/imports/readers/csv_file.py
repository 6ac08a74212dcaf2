"""CSV files: comma, semicolon or tab, UTF-8, read line by line."""

import codecs
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from webapp.imports.readers import table
from webapp.imports.readers.building import shown
from webapp.imports.readers.rows import BadSource, FoundRun, Options, Preview

SEPARATORS = ",;\t"
MAX_LINE = 4 * 1024 * 1024
MAX_COLUMNS = 20_000
csv.field_size_limit(MAX_LINE)


def read(path: Path | str, options: Options) -> list[FoundRun]:
    return table.found_runs(CsvTable(Path(path)), options)


def preview(path: Path, options: Options) -> Preview:
    return table.preview(CsvTable(path), options)


class CsvTable:
    """A file whose first line names the columns. A position is (byte, line) of a row. Raises BadSource."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, path.name
        self.notes: list[str] = []
        with path.open("rb") as opened:
            lines = _Lines(self.file, opened)
            header = next(lines, "")
            self.separator = max(SEPARATORS, key=lambda each: _count_outside_quotes(header, each))
            opened.seek(0)
            lines = _Lines(self.file, opened)
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
            lines = _Lines(self.file, opened, offset, line)
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

    def _parsed(self, lines: "_Lines") -> Iterator[list[str]]:
        reader = csv.reader(lines, delimiter=self.separator, strict=True)
        while True:
            first = lines.line + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise BadSource(self.file, first, f"This is no row of a CSV file: {error}.") from None
            yield cells


class _Lines:
    """Lines as text, none of them longer than memory allows. `line`: how many were read; `offset`: bytes of them."""

    def __init__(self, file: str, opened: BinaryIO, offset: int = 0, line: int = 0) -> None:
        self._file, self._opened = file, opened
        self.offset, self.line = offset, line

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        raw = self._opened.readline(MAX_LINE + 1)
        if not raw:
            raise StopIteration
        self.offset += len(raw)
        self.line += 1
        if len(raw) > MAX_LINE:
            raise BadSource(self._file, self.line, f"This line is longer than {MAX_LINE} bytes.")
        if self.line == 1:
            raw = self._without_mark(raw)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise BadSource(self._file, self.line, "This line is not UTF-8.") from None
        if "\0" in text:
            raise BadSource(self._file, self.line, "This line has a null byte: this is no CSV file.")
        return text

    def _without_mark(self, raw: bytes) -> bytes:
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise BadSource(self._file, 1, "The file is UTF-16; save it as UTF-8.")
        return raw.removeprefix(codecs.BOM_UTF8)


def _count_outside_quotes(header: str, separator: str) -> int:
    return sum(part.count(separator) for part in header.split('"')[::2])
