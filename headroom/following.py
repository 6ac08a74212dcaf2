"""Reads a file that another process goes on writing, line by line, and sees when it was begun anew."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mark:
    """Up to where a file was read: bytes, of which the first and the last line tell whether it is still that file."""

    offset: int = 0
    first: str = ""
    last: str = ""
    last_length: int = 0


class Followed:
    """A file of lines from a mark on; `mark` moves with each line that is given."""

    def __init__(self, path: Path, mark: Mark | None = None) -> None:
        self.path, self.mark = path, mark or Mark()

    def is_same(self) -> bool:
        """Whether what was read is still there; False where the file was truncated, or replaced by another one. A file
        that is missing for now is still the same."""
        if self.mark.offset == 0:
            return True
        try:
            with self.path.open("rb") as file:
                first = file.readline()
                file.seek(self.mark.offset - self.mark.last_length)
                last = file.read(self.mark.last_length)
        except FileNotFoundError:
            return True
        return (_digest(first), _digest(last)) == (self.mark.first, self.mark.last)

    def rewind(self) -> None:
        """Begin with the first line again."""
        self.mark = Mark()

    def new_lines(self) -> Iterator[bytes]:
        """Whole lines behind the mark; one that has no end yet is left for later."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(self.mark.offset)
            while (line := file.readline()).endswith(b"\n"):
                digest = _digest(line)
                first = self.mark.first or digest
                self.mark = Mark(self.mark.offset + len(line), first, digest, len(line))
                yield line


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
