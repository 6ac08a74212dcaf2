"""Keeping the output of jobs: what their files grew by goes into PostgreSQL, a few statements a round for all of them.

The worker calls this every round (`worker.upkeep`). What survives what is said in docs/operations.md.

The file into which a job's driver copies its output (`training.log_copy`), and reading on in it.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from training.log_copy import file_name
from webapp.identity.secrets.services import redacted, values_of
from webapp.record.logs.chunking import (
    HEAD_BYTES,
    KEPT_END_LINES,
    TAIL_BYTES,
    add_lines,
    clean_lines,
    leave_out,
    rest_of_tail,
    skip,
)
from webapp.record.logs.models import JobLog, LogChunk
from webapp.record.logs.selectors import FORGOTTEN_AFTER
from webapp.record.runs.models import Attempt, Run, State
from webapp.record.runs.states import ACTIVE, ENDED, bump

COUNTED_AT_ONCE = 1024 * 1024
log = logging.getLogger(__name__)
MOST_OF_LOG = 1024 * 1024  # bytes read of one log in a round; the rest follows in the next
MOST_OF_ROUND = 8 * 1024 * 1024
CLOSED_AFTER = timedelta(seconds=6)  # its attempt's end: until then last words may come
MOST_CLOSED = 50  # a round
MOST_ENDS = 8  # chunks in which the end of a log is looked for: more bytes than a tail has
COUNTS = ("read_to", "lines", "size", "head_lines", "left_out_lines", "left_out_size", "closed_at")


@dataclass(frozen=True)
class Piece:
    """Whole lines of a file up to a byte. Before them `skipped_lines` of together `skipped` bytes were only counted."""

    text: bytes
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
    return Piece(kept, read_from + skipped + len(kept), skipped, skipped_lines)


def _count(file: BinaryIO, length: int) -> tuple[int, int]:
    """Go on by some `length` bytes, to the end of a line: (bytes, lines)."""
    done, lines = 0, 0
    while done < length:
        if not (piece := file.read(min(COUNTED_AT_ONCE, length - done))):
            break
        done, lines = done + len(piece), lines + piece.count(b"\n")
    rest = file.readline(COUNTED_AT_ONCE)
    return done + len(rest), lines + (1 if rest else 0)


@dataclass
class Followed:
    """An attempt whose output is still to be kept, and what was found of it this round."""

    attempt_id: int
    run_id: str
    number: int
    project_id: int
    state: str
    read_to: int
    size: int | None  # of its file
    is_over: bool  # nobody writes to it any more
    piece: Piece | None = None
    lines: list[str] = field(default_factory=list)


def follow() -> int:
    """Keep what is new of every job's output, and close the logs of those that have ended; returns how many changed.

    Safe to repeat, and to interrupt: how far a file was read is stored with what was read.
    """
    followed = _followed()
    _read(followed)
    if new := [one for one in followed if one.piece is not None]:
        _clean(new)
        _store(new)
    done = [one for one in followed if one.is_over and one.piece is None]
    for one in done[:MOST_CLOSED]:
        _close(one)
    return len(new) + len(done)


def _followed() -> list[Followed]:
    """One query."""
    now = timezone.now()
    live = Q(state__in=ACTIVE - {State.QUEUED})
    ended = Q(state__in=ENDED, kept_log__closed_at=None, ended_at__gt=now - FORGOTTEN_AFTER)
    rows = Attempt.objects.filter(live | ended, run__origin=Run.Origin.LAUNCHED).values_list(
        "pk", "run_id", "number", "run__project_id", "state", "ended_at", "kept_log__read_to"
    )
    return [
        Followed(
            pk, run_id, number, project, state, read_to or 0,
            size_of(log_path(run_id, number)),
            state in ENDED and ended_at is not None and ended_at < now - CLOSED_AFTER,
        )
        for pk, run_id, number, project, state, ended_at, read_to in rows
    ]  # fmt: skip


def _read(followed: Iterable[Followed]) -> None:
    """Read on in the files that grew, those that read least first, so that a chatty one does not starve the others."""
    grown = [one for one in followed if one.size is not None and one.size > one.read_to]
    left = MOST_OF_ROUND
    for one in sorted(grown, key=lambda each: (each.size or 0) - each.read_to):
        if left <= 0:
            return
        path = log_path(one.run_id, one.number)
        try:
            one.piece = read_on(
                path, one.read_to, one.size or 0, min(MOST_OF_LOG, left), to_the_end=one.is_over
            )
        except OSError as error:
            log.warning("the log %s cannot be read: %s", path, error)
        left -= len(one.piece.text) if one.piece else 0


def _clean(new: Sequence[Followed]) -> None:
    """Lines without the secrets of their projects. One query."""
    secrets = values_of({one.project_id for one in new})
    for one in new:
        if one.piece is not None:
            text = one.piece.text.decode(errors="replace").replace("\0", "")
            one.lines = clean_lines(redacted(text, secrets.get(one.project_id, ())))


@transaction.atomic
def _store(new: Sequence[Followed]) -> None:
    """Append each piece, if nobody has since it was read. A constant number of statements for those of usual length."""
    pieces = {one.attempt_id: one for one in new}
    JobLog.objects.bulk_create([JobLog(attempt_id=pk) for pk in pieces], ignore_conflicts=True)
    rows = JobLog.objects.select_for_update().filter(pk__in=pieces).order_by("pk")
    logs = [row for row in rows if row.read_to == pieces[row.pk].read_to]
    newest = _newest_chunks(logs)
    chunks: list[LogChunk] = []
    for row in logs:
        one = pieces[row.pk]
        if one.piece is None:
            continue
        if one.piece.skipped:
            gone = skip(row, one.piece.skipped, one.piece.skipped_lines, _behind_head(row))
            row.chunks.filter(first_line__in=gone).delete()
            newest.pop(row.pk, None)
        chunks += add_lines(row, newest.get(row.pk), one.lines)
        row.read_to, row.closed_at = one.piece.read_to, None
    _put(chunks)
    for row in logs:
        _keep_bound(row)
    JobLog.objects.bulk_update(logs, COUNTS)


def _newest_chunks(logs: Sequence[JobLog]) -> dict[int, LogChunk]:
    rows = LogChunk.objects.filter(log__in=logs).order_by("log_id", "-first_line").distinct("log_id")
    return {row.log_id: row for row in rows}


def _put(chunks: Sequence[LogChunk]) -> None:
    LogChunk.objects.bulk_create(
        chunks,
        batch_size=500,
        update_conflicts=True,
        unique_fields=["log", "first_line"],
        update_fields=["lines", "size", "text"],
    )


def _keep_bound(row: JobLog) -> None:
    if row.size > HEAD_BYTES + TAIL_BYTES:
        gone = leave_out(row, _behind_head(row), HEAD_BYTES + TAIL_BYTES)
        row.chunks.filter(first_line__in=gone).delete()


def _behind_head(row: JobLog) -> list[tuple[int, int, int]]:
    """(first line, lines, bytes) of the chunks that may be left out, oldest first."""
    head = row.lines if row.head_lines is None else row.head_lines
    behind = row.chunks.filter(first_line__gt=head).order_by("first_line")
    return list(behind.values_list("first_line", "lines", "size"))


@transaction.atomic
def _close(one: Followed) -> None:
    """Nothing more will come: add what only Ray's own copy had, and have open pages ask once more.

    The job's file goes, since all of it is here; that of a lost attempt stays, it may still be written.
    """
    JobLog.objects.get_or_create(attempt_id=one.attempt_id)
    row = JobLog.objects.select_for_update().get(attempt_id=one.attempt_id)
    if row.closed_at is not None:
        return
    may_go_on = one.state == State.LOST and one.size is not None
    if not may_go_on:
        _add_rest_of_tail(row)
    row.closed_at = timezone.now()
    row.save(update_fields=COUNTS)
    bump(one.run_id)
    if not may_go_on:
        path = log_path(one.run_id, one.number)
        transaction.on_commit(lambda: _remove(path))


def _add_rest_of_tail(row: JobLog) -> None:
    tail = Attempt.objects.values_list("log_tail", flat=True).get(pk=row.pk)
    newest = row.chunks.order_by("-first_line").first()
    if rest := rest_of_tail(_end_of(row.chunks.all()), tail):
        _put(add_lines(row, newest, rest))
        _keep_bound(row)


def _end_of(chunks: QuerySet[LogChunk]) -> list[str]:
    """The newest lines that are stored, enough to find them again elsewhere."""
    lines: list[str] = []
    for chunk in chunks.order_by("-first_line")[:MOST_ENDS]:
        lines = [*chunk.text.split("\n")[:-1], *lines]
        if len(lines) >= KEPT_END_LINES:
            break
    return lines[-KEPT_END_LINES:]


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:  # it is small, and goes with the run's folder
        log.warning("the log %s cannot be removed: %s", path, error)
