"""Lines of a text file, none of them longer than memory allows."""

import codecs
from typing import BinaryIO

from webapp.interfaces.imports.readers.rows import BadSource

MAX_LINE = 4 * 1024 * 1024


class Lines:
    """Iterates over lines as text, with their ends. `line`: how many were read; `offset`: bytes of them. Raises
    BadSource for one that is too long or not UTF-8."""

    def __init__(self, file: str, opened: BinaryIO, offset: int = 0, line: int = 0) -> None:
        self._file, self._opened = file, opened
        self.offset, self.line = offset, line

    def __iter__(self) -> "Lines":
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
            raise BadSource(self._file, self.line, "This line has a null byte: this is no text.")
        return text

    def _without_mark(self, raw: bytes) -> bytes:
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise BadSource(self._file, 1, "The file is UTF-16; save it as UTF-8.")
        return raw.removeprefix(codecs.BOM_UTF8)
