"""A run's files over HTTP: an upload is streamed to the disk, a download is never more than bytes to a browser."""

from django.http import FileResponse, HttpRequest

from webapp.identity.accounts.models import Project
from webapp.record.artifacts import store
from webapp.record.artifacts.models import Artifact
from webapp.record.artifacts.store import Received
from webapp.record.runs.models import Run


def upload(request: HttpRequest, run: Run, path: str) -> Artifact:
    """Keep the body of a request as a file of the run. Raises what `webapp.record.artifacts.store.store` raises."""
    return store.store(run, path, *_body(request))


def receive(request: HttpRequest, project: Project, name: str) -> Received:
    """The body of a request, for a run that is named later."""
    return store.receive(project, name, *_body(request))


def _body(request: HttpRequest) -> tuple[store.Read, int | None]:
    """How to read it, and the bytes that it says it has. One sent in chunks Django takes for empty."""
    if "chunked" in request.headers.get("Transfer-Encoding", "").lower():
        return request.environ["wsgi.input"].read, None  # type: ignore[attr-defined]
    return request.read, int(request.META.get("CONTENT_LENGTH") or 0)


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
