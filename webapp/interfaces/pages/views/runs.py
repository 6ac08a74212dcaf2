"""The list of runs: its page, and as files."""

from collections.abc import Callable, Iterator

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.utils import timezone

from webapp.base.errors import InvalidInput
from webapp.interfaces.pages.access import current_project, signed_in
from webapp.interfaces.pages.run_list import export
from webapp.interfaces.pages.run_list.list_page import list_page
from webapp.interfaces.pages.run_list.listing import ListState, state_of
from webapp.record.runs.filtering import compile_filter
from webapp.record.savedviews.selectors import views_of

Pieces = Callable[[Iterator[export.Values], ListState], Iterator[str]]
FORMS: dict[str, tuple[Pieces, str]] = {
    "csv": (lambda rows, state: export.csv_lines(rows, state.columns), "text/csv; charset=utf-8"),
    "json": (export.json_pieces, "application/json"),
}


def runs(request: HttpRequest) -> HttpResponse:
    """The list; asked by htmx, what it swaps; with the header X-Cursor, what changed since."""
    return list_page(request)


def download(request: HttpRequest, form: str) -> HttpResponseBase:
    """All runs of the list at this address, on every page of it, streamed; 422 with the reason where there is none."""
    project, user = current_project(request), signed_in(request)
    state = state_of(request.GET, views_of(user, project))
    try:
        ids = export.ids_of(project, state, compile_filter(state.filter, user=user))
    except InvalidInput as error:
        return _refused(error, form)
    pieces, content_type = FORMS[form]
    rows = export.values_of(project, ids, state.columns)
    response = StreamingHttpResponse(pieces(rows, state), content_type=content_type)
    day = timezone.now().date().isoformat()
    response["Content-Disposition"] = f'attachment; filename="runs-{project.slug}-{day}.{form}"'
    return response


def _refused(error: InvalidInput, form: str) -> HttpResponse:
    if form == "csv":
        return HttpResponse(error.message, status=error.status, content_type="text/plain; charset=utf-8")
    said = {"code": error.code, "message": error.message, "field": error.field}
    return JsonResponse({"error": said}, status=error.status)
