"""Output of a job as lines of text. Pure functions."""

import re
from collections.abc import Sequence

MOST_CHARACTERS = 8192  # of a line
MATCHED = 20  # lines by which the end of what is kept is found again in another copy
KEPT_END_LINES = 1200  # more than a tail has
FULL_TAIL_BYTES, FULL_TAIL_LINES = 60 * 1024, 990  # a tail of this size was cut off at its beginning
BEGIN_MISSING = "[The beginning is not kept: its job's machine gave only the end.]"
PART_MISSING = "[A part is missing here: its job's machine gave only the end.]"

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # colours and moves of a terminal
TRACEBACK = "Traceback (most recent call last):"
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
    lines = clean_lines(tail)
    if not lines:
        return []
    if not kept_end:
        is_cut = len(tail.encode()) >= FULL_TAIL_BYTES or len(lines) >= FULL_TAIL_LINES
        return [BEGIN_MISSING, *lines] if is_cut else lines
    end = _end_of_last(kept_end[-MATCHED:], lines)
    if end is not None:
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
