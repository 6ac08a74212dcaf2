"""Reading what is kept of a job's output: by line numbers, from either end, and by words."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from django.db.models import F
from django.utils import timezone

from webapp.record.logs.chunking import clean_lines, error_lines
from webapp.record.logs.models import JobLog, LogChunk
from webapp.record.runs.models import Attempt, Run, State

CHUNKS_AT_ONCE = 16
FORGOTTEN_AFTER = timedelta(days=1)  # an attempt's end: nobody follows its output any more
MOST_WANTED = 200  # characters of a text that is looked for
ERROR_FROM = 200  # newest lines among which a failure's reason is looked for


@dataclass(frozen=True)
class Line:
    """A line with its number in the job's whole output, from 1 on."""

    number: int
    text: str


@dataclass(frozen=True)
class Gap:
    """Lines that were left out: from `first` on, `lines` of together `size` bytes."""

    first: int
    lines: int
    size: int


class Kept:
    """What is kept of an attempt's output. Where its lines were never stored one by one, the end that Ray gave is read
    instead, and numbered from its own first line (`is_tail`)."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        row = JobLog.objects.filter(pk=attempt.pk).first()
        self._row = row if row is not None and row.lines else None
        self._closed_at = row.closed_at if row is not None else None
        self._tail = [] if self._row is not None else clean_lines(attempt.log_tail)

    @property
    def is_tail(self) -> bool:
        return self._row is None

    @property
    def total(self) -> int:
        """Lines of the whole output so far."""
        return self._row.lines if self._row is not None else len(self._tail)

    @property
    def gap(self) -> Gap | None:
        row = self._row
        if row is None or not row.left_out_size:
            return None
        return Gap((row.head_lines or 0) + 1, row.left_out_lines, row.left_out_size)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can come."""
        ended_at = self.attempt.ended_at
        is_long_over = ended_at is not None and timezone.now() - ended_at > FORGOTTEN_AFTER
        return self._closed_at is not None or is_long_over

    def after(self, number: int, limit: int) -> list[Line]:
        """The first `limit` lines after the one of this number."""
        return list(islice(self._lines(after=number), limit))

    def before(self, number: int, limit: int) -> list[Line]:
        """The last `limit` lines before the one of this number, in their order."""
        return list(islice(self._lines_backwards(before=number), limit))[::-1]

    def newest(self, limit: int) -> list[Line]:
        """The last `limit` lines."""
        return self.before(self.total + 1, limit)

    def matching(self, wanted: str, limit: int, *, after: int = 0) -> list[Line]:
        """The first `limit` lines after a number that hold the text; case does not matter."""
        return list(islice(_holding(self._lines(after=after, wanted=wanted), wanted), limit))

    def newest_matching(self, wanted: str, limit: int) -> list[Line]:
        """The last `limit` lines that hold the text, in their order."""
        lines = self._lines_backwards(before=self.total + 1, wanted=wanted)
        return list(islice(_holding(lines, wanted), limit))[::-1]

    def text(self) -> Iterator[str]:
        """All of it in pieces, with a line where something was left out."""
        gap, told = self.gap, False
        if self._row is None:
            yield "".join(f"{line}\n" for line in self._tail)
            return
        for chunk in _chunks(self._row, backwards=False):
            if gap is not None and not told and chunk.first_line > gap.first:
                yield f"[{gap.lines:,} lines are left out here]\n"
                told = True
            yield chunk.text

    def _lines(self, *, after: int, wanted: str = "") -> Iterator[Line]:
        if self._row is None:
            yield from (Line(n, text) for n, text in enumerate(self._tail, 1) if n > after)
            return
        for chunk in _chunks(self._row, backwards=False, after=after, wanted=wanted):
            yield from (line for line in _lines_of(chunk) if line.number > after)

    def _lines_backwards(self, *, before: int, wanted: str = "") -> Iterator[Line]:
        if self._row is None:
            numbered = list(enumerate(self._tail, 1))
            yield from (Line(n, text) for n, text in reversed(numbered) if n < before)
            return
        for chunk in _chunks(self._row, backwards=True, before=before, wanted=wanted):
            yield from (line for line in reversed(_lines_of(chunk)) if line.number < before)


def last_error_of(run: Run) -> list[Line]:
    """The end of a failed or lost run's log that tells why; empty for others, and where nothing was kept."""
    if run.state not in (State.FAILED, State.LOST):
        return []
    if (attempt := Attempt.objects.filter(run=run, number=run.attempt_number).first()) is None:
        return []
    lines = Kept(attempt).newest(ERROR_FROM)
    said = error_lines([line.text for line in lines])
    return [line for line in lines if line.text.strip()][len(said) * -1 :] if said else []


def _chunks(
    row: JobLog, *, backwards: bool, after: int = 0, before: int | None = None, wanted: str = ""
) -> Iterator[LogChunk]:
    """Chunks with lines in the span, a few at a time; with `wanted` (ASCII) only those that hold it."""
    found = row.chunks.filter(first_line__gt=after - F("lines"))
    if wanted.isascii() and wanted:  # what case means beyond ASCII is Python's to say
        found = found.filter(text__icontains=wanted)
    order, edge = ("-first_line", "first_line__lt") if backwards else ("first_line", "first_line__gt")
    if before is not None:
        found = found.filter(first_line__lt=before)
    place: int | None = None
    while True:
        rows = found if place is None else found.filter(**{edge: place})
        some = list(rows.order_by(order)[:CHUNKS_AT_ONCE])
        yield from some
        if len(some) < CHUNKS_AT_ONCE:
            return
        place = some[-1].first_line


def _lines_of(chunk: LogChunk) -> list[Line]:
    return [Line(chunk.first_line + i, text) for i, text in enumerate(chunk.text.split("\n")[:-1])]


def _holding(lines: Iterator[Line], wanted: str) -> Iterator[Line]:
    needle = wanted.casefold()
    return (line for line in lines if needle in line.text.casefold())
