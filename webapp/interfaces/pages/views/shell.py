"""What every page uses: the search of the command palette, and a sign of life."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache

from webapp.interfaces.pages.access import current_project
from webapp.interfaces.pages.search import search


@never_cache
def palette(request: HttpRequest) -> JsonResponse:
    """{"items": [{"kind", "label", "hint", "url"}]}: what the current project has under these words."""
    return JsonResponse({"items": search(current_project(request), request.GET.get("q", ""))})


@never_cache
def alive(request: HttpRequest) -> HttpResponse:
    """204: the server answers and the reader is signed in; a script gets 401 where that ended."""
    return HttpResponse(status=204)
