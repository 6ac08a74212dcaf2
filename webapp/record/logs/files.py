"""The file into which a job's driver copies its output (`training.log_copy`), and reading on in it."""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from training.log_copy import file_name
from webapp.record.logs.chunking import HEAD_BYTES, TAIL_BYTES

COUNTED_AT_ONCE = 1024 * 1024


@dataclass(frozen=True)
class Piece:
    """Whole lines of a file up to a byte. Before them `skipped_lines` of together `skipped` bytes were only counted."""

    text: bytes
    read_from: int
    read_to: int
    skipped: int = 0
    skipped_lines: int = 0


def log_path(run_id: str, attempt: int) -> Path:
    """Where the driver of this attempt copies its output."""
    return Path(settings.HEADROOM_HOME) / "runs" / run_id / file_name(attempt)


def size_of(path: Path) -> int | None:
    """Bytes of the file; None where it is not there (any more), or cannot be asked."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def read_on(path: Path, read_from: int, size: int, most: int, *, to_the_end: bool = False) -> Piece | None:
    """What follows in the file up to its last whole line (`to_the_end`: and what has no line end yet), `most` bytes.

    None where there is nothing. Of what a long log would leave out anyway lines are only counted. Raises OSError.
    """
    with path.open("rb") as file:
        file.seek(read_from)
        skipped, skipped_lines = 0, 0
        if read_from >= HEAD_BYTES and size - read_from > 2 * TAIL_BYTES:
            skipped, skipped_lines = _count(file, size - TAIL_BYTES - read_from)
        text = file.read(most)
    is_end = len(text) < most
    whole = text.rfind(b"\n") + 1
    if whole == 0 and is_end and not to_the_end:
        return None
    kept = text if whole == 0 or (to_the_end and is_end) else text[:whole]
    if not kept:
        return None
    return Piece(kept, read_from, read_from + skipped + len(kept), skipped, skipped_lines)


def _count(file: BinaryIO, length: int) -> tuple[int, int]:
    """Go on by some `length` bytes, to the end of a line: (bytes, lines)."""
    done, lines = 0, 0
    while done < length:
        piece = file.read(min(COUNTED_AT_ONCE, length - done))
        if not piece:
            break
        done, lines = done + len(piece), lines + piece.count(b"\n")
    rest = file.readline(COUNTED_AT_ONCE)
    return done + len(rest), lines + (1 if rest else 0)
