"""/api/v1/runs/{id}/artifacts: the files of a run."""

from datetime import datetime
from typing import Any

from django.http import FileResponse, HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import Field

from webapp.interfaces import files
from webapp.interfaces.api.auth import READ_RUN, WRITE, WRITE_RUN, check_goes_on, run_of, user_of
from webapp.interfaces.api.openapi import BYTES, answers
from webapp.interfaces.api.paging import page
from webapp.interfaces.api.schemas import PageQuery
from webapp.record.artifacts import store
from webapp.record.artifacts.models import Artifact

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


class ArtifactPage(Schema):
    items: list[ArtifactOut]
    next: str | None


@router.get(
    "/{run_id}/artifacts", auth=READ_RUN, response=ArtifactPage, summary="The files of a run, by path"
)
def list_artifacts(request: HttpRequest, run_id: str, query: Query[PageQuery]) -> dict[str, Any]:
    """What its trainer, or a client for it, has kept there."""
    rows = run_of(request, run_id).artifacts.all()
    return page(rows, order=["path"], cursor=query.cursor, limit=query.limit, payload=artifact_payload)


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
    return Status(201, artifact_payload(files.upload(request, run, path)))


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


def artifact_payload(one: Artifact) -> dict[str, Any]:
    return {name: getattr(one, name) for name in ArtifactOut.model_fields}
