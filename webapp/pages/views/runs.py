"""The list of runs."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from webapp.pages.run_list.list_page import list_page


@require_GET
def runs(request: HttpRequest) -> HttpResponse:
    """The list; asked by htmx, what it swaps; with the header X-Cursor, what changed since."""
    return list_page(request)
