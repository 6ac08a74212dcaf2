"""/api/v1/runs/{id}/export and /api/v1/export: everything, unsampled, as files that are sent while they are made."""

from collections.abc import Sequence
from typing import Any, Literal

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from webapp.interfaces.api.auth import READ_WHOLE, project_of, run_of, user_of
from webapp.interfaces.api.curves import check_metric
from webapp.interfaces.api.openapi import CSV, JSONL, PARQUET, answers
from webapp.interfaces.api.paging import unless_known
from webapp.interfaces.exports.forms import download
from webapp.interfaces.exports.of_project import project_pieces, run_pieces
from webapp.record.runs import selectors
from webapp.record.runs.models import Record, Run

router = Router(tags=["exports"])
FileFormat = Literal["csv", "jsonl", "parquet"]
METRIC: Any = Field(
    default_factory=list, max_length=200, description="Only these; repeat it. None: all of them."
)
SUPERSEDED: Any = Field(
    False, description="Also what an attempt reported past the step that a later one resumed from."
)


class RunExportQuery(Schema):
    format: FileFormat = "jsonl"
    metric: list[str] = METRIC
    superseded: bool = SUPERSEDED
    shape: Literal["wide", "long"] = Field(
        "wide",
        description="Of CSV and Parquet: a column a metric, or a row a value. JSONL has one record a line.",
    )


class ProjectExportQuery(Schema):
    filter: str = Field(
        "", description="Which runs, in the filter language; empty: all that are not archived."
    )
    content: Literal["curves", "records", "runs"] = Field(
        "curves",
        description="curves: every evaluation of each run, or every point of the metrics named; records: all that was "
        "reported, in CSV and Parquet one row a value; runs: the runs themselves with their configuration.",
    )
    format: FileFormat = "jsonl"
    metric: list[str] = METRIC
    superseded: bool = SUPERSEDED


@router.get(
    "/runs/{run_id}/export",
    auth=READ_WHOLE,
    summary="Every record of a run as a file",
    openapi_extra=answers(files=(JSONL, CSV, PARQUET), etag=True),
)
def export_run(request: HttpRequest, run_id: str, query: Query[RunExportQuery]) -> StreamingHttpResponse:
    """In the order of training. A line of JSONL is a record as POST /runs/{run_id}/records takes it: with
    superseded=true nothing is lost on the way out and in again. A value that was not finite, and an amount of
    compute that is not known, is null there and empty in a table. 404 where the run reported none of the metrics that
    are named."""
    run = run_of(request, run_id)
    _check_reported(run, query.metric)
    unless_known(request, run.version)
    pieces = run_pieces(
        run, query.format, metrics=query.metric, superseded=query.superseded, shape=query.shape
    )
    return download(query.format, f"{run.pk}-records", pieces)


def _check_reported(run: Run, metrics: Sequence[str]) -> None:
    """Raises NotFound where none of the metrics has points or, as one that was never finite, a record."""
    if not metrics or any(selectors.stored_name(run, metric) for metric in metrics):
        return
    if not Record.objects.filter(run=run, metrics__has_any_keys=list(metrics)).exists():
        check_metric(run, metrics[0])


@router.get(
    "/export",
    auth=READ_WHOLE,
    summary="All runs that a filter finds as one file",
    openapi_extra=answers(files=(JSONL, CSV, PARQUET)),
)
def export_project(request: HttpRequest, query: Query[ProjectExportQuery]) -> StreamingHttpResponse:
    """Newest run first; every line or row says of which run it is. At most 20,000 runs (else 422, field filter)."""
    project = project_of(request)
    content = project_pieces(
        project,
        user_of(request),
        query.format,
        content=query.content,
        text=query.filter,
        metrics=query.metric,
        superseded=query.superseded,
    )
    return download(query.format, f"{project.slug}-{query.content}", content)
