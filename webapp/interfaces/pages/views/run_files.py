"""Every record of a run as a file, and the files that its trainer gave away."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse

from webapp.base.errors import InvalidInput
from webapp.interfaces import files
from webapp.interfaces.exports.forms import download
from webapp.interfaces.exports.of_run import run_pieces
from webapp.interfaces.pages.access import get_run
from webapp.interfaces.pages.run.timeline import until_of
from webapp.record.artifacts import store
from webapp.record.runs.timeline import as_trace, timeline_of


def records(request: HttpRequest, run_id: str, form: str) -> HttpResponseBase:
    """Unsampled and streamed, without superseded records; 422 with the reason where a table would be too wide."""
    run = get_run(request, run_id)
    try:
        return download(form, f"{run.pk}-records", run_pieces(run, form))
    except InvalidInput as error:
        return HttpResponse(error.message, status=error.status, content_type="text/plain; charset=utf-8")


def timeline(request: HttpRequest, run_id: str) -> HttpResponseBase:
    """Where the time of the steps up to `until` went, as Perfetto and Chrome's tracing read it."""
    run = get_run(request, run_id)
    name = f'attachment; filename="{run.pk}-timeline.json"'
    found = as_trace(run, timeline_of(run, until_of(request.GET)))
    return JsonResponse(found, headers={"Content-Disposition": name})


def file(request: HttpRequest, run_id: str, path: str) -> HttpResponseBase:
    """A file of the run, to be saved."""
    return files.download(store.find(get_run(request, run_id), path))
