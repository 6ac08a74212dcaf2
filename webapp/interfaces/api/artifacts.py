"""/api/v1/runs/{id}/artifacts: the files of a run.

/api/v1/runs/{id}/logs: the output of a run's job, line by line.
"""

from datetime import datetime
from typing import Any

from django.http import FileResponse, HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from webapp.base.errors import first_of
from webapp.interfaces import files
from webapp.interfaces.api.auth import READ_HEAVY, READ_RUN, WRITE, WRITE_RUN, check_goes_on, run_of, user_of
from webapp.interfaces.api.openapi import BYTES, answers
from webapp.interfaces.api.paging import PageQuery, page, page_of, place_of
from webapp.record.artifacts import store
from webapp.record.logs.selectors import MOST_WANTED, Kept

router = Router(tags=["runs"])
BODY = {
    "requestBody": {
        "required": True,
        "description": "The content, as it is.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class ArtifactOut(Schema):
    path: str = Field(description='Within the run, names with "/" between them.')
    size: int = Field(description="Bytes.")
    sha256: str = Field(description="Of the content, in hex.")
    created_at: datetime = Field(description="When this content came.")


@router.get(
    "/{run_id}/artifacts", auth=READ_RUN, response=page_of(ArtifactOut), summary="The files of a run, by path"
)
def list_artifacts(request: HttpRequest, run_id: str, query: Query[PageQuery]) -> dict[str, Any]:
    """What its trainer, or a client for it, has kept there."""
    rows = run_of(request, run_id).artifacts.all()
    return page(rows, query, order=["path"])


@router.get(
    "/{run_id}/artifacts/{path:path}",
    auth=READ_RUN,
    summary="The content of a file of a run",
    openapi_extra=answers(files=(BYTES,)),
)
def get_artifact(request: HttpRequest, run_id: str, path: str) -> FileResponse:
    """To be saved, whatever it holds: `application/octet-stream`, with its SHA-256 as ETag."""
    return files.download(store.find(run_of(request, run_id), path))


@router.put(
    "/{run_id}/artifacts/{path:path}",
    auth=WRITE_RUN,
    response={201: ArtifactOut},
    summary="Keep a file with a run",
    description="The body is the content. It is kept whole or not at all; a file of the same path is replaced. A file "
    "and the files of a project have limits (413 names the one that was met).",
    openapi_extra=BODY | answers(409, 507),
)
def put_artifact(request: HttpRequest, run_id: str, path: str) -> Status:
    run = run_of(request, run_id)
    check_goes_on(request, run)
    return Status(201, files.upload(request, run, path))


@router.delete(
    "/{run_id}/artifacts/{path:path}",
    auth=WRITE,
    response={204: None},
    summary="Delete a file, or a folder of files",
)
def delete_artifact(request: HttpRequest, run_id: str, path: str) -> Status:
    """For good."""
    store.delete(run_of(request, run_id), path, user=user_of(request))
    return Status(204, None)


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


@router.get(
    "/{run_id}/logs",
    auth=READ_HEAVY,
    response=LogPage,
    summary="The output of a run's job",
    operation_id="webapp_api_logs_get_logs",
)
def get_logs(request: HttpRequest, run_id: str, query: Query[LogQuery]) -> dict[str, Any]:
    """From the first line on; an empty page whose `next` is not null says that nothing new was printed yet."""
    run = run_of(request, run_id)
    number = query.attempt or run.attempt_number
    attempt = first_of(run.attempts.filter(number=number), f"This run has no attempt {number}.")
    kept, after = Kept(attempt), place_of(query.cursor)
    lines = kept.matching(query.q, query.limit, after=after) if query.q else kept.after(after, query.limit)
    is_full = len(lines) == query.limit
    reached = lines[-1].number if is_full or (lines and not query.q) else max(after, kept.total)
    gap = kept.gap
    return {
        "attempt": number,
        "items": lines,
        "next": None if kept.is_closed and not is_full else str(reached),
        "total": kept.total,
        "left_out": {"first": gap.first, "lines": gap.lines, "bytes": gap.size} if gap else None,
    }
