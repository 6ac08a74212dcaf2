"""What every page uses: the search of the command palette, and a sign of life.

/api/docs: what the API takes and gives, for people. It is open to everybody, as the document that it shows is.

How the installation is: what is wrong in words, and the figures behind it.
"""

from functools import cache

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.api.api import api
from webapp.interfaces.pages.access import current_project, granted
from webapp.interfaces.pages.answers import page_or_fragment
from webapp.interfaces.pages.api_docs import Group, Shape, groups_of, shapes_of
from webapp.interfaces.pages.overview import queued
from webapp.interfaces.pages.search import search
from webapp.reporting.status.status import status_now
from webapp.reporting.status.troubles import status_payload


@never_cache
def palette(request: HttpRequest) -> JsonResponse:
    """{"items": [{"kind", "label", "hint", "url"}]}: what the current project has under these words."""
    return JsonResponse({"items": search(current_project(request), request.GET.get("q", ""))})


@never_cache
def alive(request: HttpRequest) -> HttpResponse:
    """204: the server answers and the reader is signed in; a script gets 401 where that ended."""
    return HttpResponse(status=204)


def page(request: HttpRequest) -> HttpResponse:
    """Drawn on the server from the OpenAPI document; nothing on it depends on who looks."""
    groups, shapes = _content()
    return render(request, "docs/api.html", {"groups": groups, "shapes": shapes})


@cache
def _content() -> tuple[list[Group], list[Shape]]:
    document = api.get_openapi_schema()
    return groups_of(document), shapes_of(document)


@never_cache
def status(request: HttpRequest) -> HttpResponse:
    """The page; to htmx, every few seconds, what changes on it. Names of machines are for admins."""
    project = current_project(request)
    is_admin = Permission.ADMIN in granted(request)
    context = {"status": status_payload(status_now(), is_admin=is_admin), "is_admin": is_admin}
    context |= queued(project)
    return page_or_fragment(request, "status/page.html", "status/_status.html", context)
