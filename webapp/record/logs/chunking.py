"""How lines become chunks, and what is left out of a long log. Pure but for the rows that it fills."""

from collections.abc import Iterable

from webapp.record.logs.models import JobLog, LogChunk

CHUNK_BYTES = 32 * 1024  # a chunk of this size is not added to
HEAD_BYTES = 8 * 1024 * 1024
TAIL_BYTES = 8 * 1024 * 1024


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


def leave_out(log: JobLog, sizes: Iterable[tuple[int, int, int]]) -> list[int]:
    """Which chunks go, by their first lines, so that the log keeps to its bound; counted in `log`.

    `sizes`: (first line, lines, bytes) of the chunks behind the head, oldest first.
    """
    gone = []
    for first_line, lines, size in sizes:
        if log.size <= HEAD_BYTES + TAIL_BYTES:
            break
        gone.append(first_line)
        log.size, log.left_out_lines = log.size - size, log.left_out_lines + lines
        log.left_out_size += size
    return gone


def skip(log: JobLog, size: int, lines: int, behind_head: Iterable[tuple[int, int, int]]) -> list[int]:
    """Note bytes and lines that were not read; the chunks behind the head go with them, by their first lines."""
    if log.head_lines is None:
        log.head_lines = log.lines
    gone = []
    for first_line, chunk_lines, chunk_size in behind_head:
        gone.append(first_line)
        log.size, log.left_out_lines = log.size - chunk_size, log.left_out_lines + chunk_lines
        log.left_out_size += chunk_size
    log.lines, log.left_out_lines = log.lines + lines, log.left_out_lines + lines
    log.left_out_size += size
    return gone
