"""How lines become chunks, and what is left out of a long log. Pure but for the rows that it fills.

Output of a job as lines of text. Pure functions.
"""

import re
from collections.abc import Iterable, Sequence

from webapp.record.logs.models import JobLog, LogChunk

CHUNK_BYTES = 32 * 1024  # a chunk of this size is not added to
HEAD_BYTES = 8 * 1024 * 1024
TAIL_BYTES = 8 * 1024 * 1024
MOST_CHARACTERS = 8192  # of a line
MATCHED = 20  # lines by which the end of what is kept is found again in another copy
KEPT_END_LINES = 1200  # more than a tail has
BEGIN_MISSING = "[The beginning is not kept: its job's machine gave only the end.]"
PART_MISSING = "[A part is missing here: its job's machine gave only the end.]"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # colours and moves of a terminal
TRACEBACK = "Traceback (most recent call last):"


def add_lines(log: JobLog, last: LogChunk | None, lines: Iterable[str]) -> list[LogChunk]:
    """Count `lines` in `log` and put them into chunks: new ones, and `last` (the newest stored) while it has room.

    Returns the chunks to store, oldest first.
    """
    chunk = last if last is not None and _has_room(log, last) else None
    touched = [] if chunk is None else [chunk]
    texts: list[str] = [] if chunk is None else [chunk.text]
    for line in lines:
        text = f"{line}\n"
        size = len(text.encode())
        if log.head_lines is None and log.size + size > HEAD_BYTES:
            _finished(chunk, texts)
            log.head_lines, chunk = log.lines, None
        if chunk is None or chunk.size >= CHUNK_BYTES:
            _finished(chunk, texts)
            chunk, texts = LogChunk(log=log, first_line=log.lines + 1, lines=0, size=0, text=""), []
            touched.append(chunk)
        texts.append(text)
        chunk.lines, chunk.size = chunk.lines + 1, chunk.size + size
        log.lines, log.size = log.lines + 1, log.size + size
    _finished(chunk, texts)
    return [one for one in touched if one.lines]


def _finished(chunk: LogChunk | None, texts: list[str]) -> None:
    if chunk is not None:
        chunk.text = "".join(texts)


def _has_room(log: JobLog, last: LogChunk) -> bool:
    return last.size < CHUNK_BYTES and log.head_lines != last.first_line + last.lines - 1


def leave_out(log: JobLog, sizes: Iterable[tuple[int, int, int]], most: int) -> list[int]:
    """Which chunks go, by their first lines, so that the log keeps to `most` bytes; counted in `log`.

    `sizes`: (first line, lines, bytes) of the chunks behind the head, oldest first.
    """
    gone = []
    for first_line, lines, size in sizes:
        if log.size <= most:
            break
        gone.append(first_line)
        log.size, log.left_out_lines = log.size - size, log.left_out_lines + lines
        log.left_out_size += size
    return gone


def skip(log: JobLog, size: int, lines: int, behind_head: Iterable[tuple[int, int, int]]) -> list[int]:
    """Note bytes and lines that were not read; the chunks behind the head go with them, by their first lines."""
    if log.head_lines is None:
        log.head_lines = log.lines
    gone = leave_out(log, behind_head, most=-1)
    log.lines, log.left_out_lines = log.lines + lines, log.left_out_lines + lines
    log.left_out_size += size
    return gone


FULL_TAIL_BYTES, FULL_TAIL_LINES = 60 * 1024, 990  # a tail of this size was cut off at its beginning

MOST_OF_ERROR, LINES_WITHOUT_TRACEBACK = 24, 8


def clean_lines(text: str) -> list[str]:
    """The lines as a terminal would have left them: of one that was written over (progress bars) its last state.

    Without colours and NUL; very long ones are cut off, and say so.
    """
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return [_clean(line) for line in lines]


def _clean(line: str) -> str:
    kept = ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2].replace("\0", ""))
    if len(kept) <= MOST_CHARACTERS:
        return kept
    return f"{kept[:MOST_CHARACTERS]} … [{len(kept) - MOST_CHARACTERS:,} more characters of this line]"


def rest_of_tail(kept_end: Sequence[str], tail: str) -> list[str]:
    """The lines of a log's tail that come after what is kept, whose newest lines are `kept_end` (give it KEPT_END_LINES
    of them, since the tail may be older than they are).

    Where the two do not meet, a line says that something is missing.
    """
    if not (lines := clean_lines(tail)):
        return []
    if not kept_end:
        is_cut = len(tail.encode()) >= FULL_TAIL_BYTES or len(lines) >= FULL_TAIL_LINES
        return [BEGIN_MISSING, *lines] if is_cut else lines
    if (end := _end_of_last(kept_end[-MATCHED:], lines)) is not None:
        return lines[end:]
    whole = lines if tail.endswith("\n") else lines[:-1]
    known = _end_of_last(whole[1:][-MATCHED:] or whole, kept_end)  # a tail may begin in a line
    if known is not None:
        return [] if known < len(kept_end) else lines[len(whole) :]
    overlap = _overlap(kept_end, lines)
    return lines[overlap:] if overlap else [PART_MISSING, *lines]


def _end_of_last(wanted: Sequence[str], lines: Sequence[str]) -> int | None:
    """Behind the last place where the wanted lines stand one after the other; None where they do not."""
    count = len(wanted)
    ends = range(len(lines), count - 1, -1) if count else ()
    return next((end for end in ends if list(lines[end - count : end]) == list(wanted)), None)


def _overlap(kept_end: Sequence[str], lines: Sequence[str]) -> int:
    """How many of the first lines are the last that are kept; the very first may be the rest of one."""
    for count in range(min(MATCHED, len(lines), len(kept_end)), 0, -1):
        known_first, *known = kept_end[-count:]
        first, *others = lines[:count]
        if first.strip() and known_first.endswith(first) and known == others:
            return count
    return 0


def error_lines(lines: Sequence[str]) -> list[str]:
    """The end of a failed job's log that tells why: from its last traceback on, else a few lines."""
    said = [line for line in lines if line.strip()]
    starts = [index for index, line in enumerate(said) if TRACEBACK in line]
    if starts and len(said) - starts[-1] <= MOST_OF_ERROR:
        return said[starts[-1] :]
    return said[-(MOST_OF_ERROR if starts else LINES_WITHOUT_TRACEBACK) :]
