"""/api/v1/runs/{id}/logs: the output of a run's job, line by line."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from webapp.base.amounts import whole_in
from webapp.base.errors import InvalidInput, NotFound
from webapp.interfaces.api.auth import READ_HEAVY, run_of
from webapp.record.logs.selectors import MOST_WANTED, Kept

router = Router(tags=["runs"])
DEFAULT_LINES, MOST_LINES = 500, 5000


class LogQuery(Schema):
    attempt: int | None = Field(None, ge=1, le=32767, description="null: the newest.")
    cursor: str | None = Field(None, description='"next" of the page before: lines after it.')
    q: str = Field("", max_length=MOST_WANTED, description="Only lines that hold this text, in any case.")
    limit: int = Field(DEFAULT_LINES, ge=1, le=MOST_LINES)


class LineOut(Schema):
    number: int = Field(description="In the whole output, from 1 on.")
    text: str


class LeftOut(Schema):
    first: int = Field(description="Number of the first line that was left out.")
    lines: int
    bytes: int


class LogPage(Schema):
    attempt: int
    items: list[LineOut]
    next: str | None = Field(
        description="Ask with it for what follows; null once the job has ended and every line was given."
    )
    total: int = Field(description="Lines of the output so far.")
    left_out: LeftOut | None = Field(description="Of a long output the first and the last 8 MiB are kept.")


@router.get("/{run_id}/logs", auth=READ_HEAVY, response=LogPage, summary="The output of a run's job")
def get_logs(request: HttpRequest, run_id: str, query: Query[LogQuery]) -> dict[str, Any]:
    """From the first line on; an empty page whose `next` is not null says that nothing new was printed yet."""
    run = run_of(request, run_id)
    number = query.attempt or run.attempt_number
    attempt = run.attempts.filter(number=number).first()
    if attempt is None:
        raise NotFound(f"This run has no attempt {number}.")
    kept, after = Kept(attempt), _after(query.cursor)
    lines = kept.matching(query.q, query.limit, after=after) if query.q else kept.after(after, query.limit)
    is_full = len(lines) == query.limit
    reached = lines[-1].number if is_full or (lines and not query.q) else max(after, kept.total)
    gap = kept.gap
    return {
        "attempt": number,
        "items": [{"number": line.number, "text": line.text} for line in lines],
        "next": None if kept.is_closed and not is_full else str(reached),
        "total": kept.total,
        "left_out": {"first": gap.first, "lines": gap.lines, "bytes": gap.size} if gap else None,
    }


def _after(cursor: str | None) -> int:
    if (after := whole_in(cursor or "0", 15)) is None:
        raise InvalidInput("cursor", "cursor is not one that a page gave out.")
    return after
