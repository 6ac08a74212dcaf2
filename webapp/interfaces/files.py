"""A run's files over HTTP: an upload is streamed to the disk, a download is never more than bytes to a browser.

A table of responses is read as samples of the run, besides.
"""

from functools import partial

from django.http import FileResponse, HttpRequest

from webapp.base.errors import InvalidInput
from webapp.record.artifacts import store
from webapp.record.artifacts.models import Artifact
from webapp.record.runs.models import Run
from webapp.record.samples.store import take_responses


def upload(request: HttpRequest, run: Run, path: str) -> Artifact:
    """Keep the body of a request as a file of the run. Raises what `webapp.record.artifacts.store.store` raises."""
    return keep(run, path, *body_of(request))


def keep(run: Run, path: str, read: store.Read, size: int | None) -> Artifact:
    """Keep a file that a client logs, and what responses it holds. Raises what `store.store` raises."""
    artifact = store.store(run, path, read, size)
    take_responses(artifact)
    return artifact


def body_of(request: HttpRequest) -> tuple[store.Read, int]:
    """How to read it, and the bytes that it has: the web server knows them, also of what was sent in chunks."""
    return partial(_read, request), int(request.META.get("CONTENT_LENGTH") or 0)


def _read(request: HttpRequest, size: int) -> bytes:
    try:
        return request.read(size)
    except OSError as error:
        raise InvalidInput("path", "The file has not arrived whole.", status=400) from error


def download(artifact: Artifact) -> FileResponse:
    """The file, to be saved: no browser shows it, whatever it holds. Raises NotFound."""
    response = FileResponse(
        store.open_file(artifact),
        as_attachment=True,
        filename=artifact.path.rpartition("/")[2],
        content_type="application/octet-stream",
        headers={"X-Content-Type-Options": "nosniff", "ETag": f'"{artifact.sha256}"'},
    )
    response["Content-Length"] = artifact.size
    return response
