"""What every page uses: the search of the command palette, and a sign of life.

/api/docs: what the API takes and gives, for people. It is open to everybody, as the document that it shows is.

How the installation is: what is wrong in words, and the figures behind it.

The first page: what runs, bent, alarms, waits and ended. Asked by htmx, only the parts that changed.
"""

from functools import cache
from hashlib import sha256
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache

from training.models import BASE_MODEL, available_models, default_home
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.api.api import api
from webapp.interfaces.pages.access import current_project, granted, signed_in
from webapp.interfaces.pages.answers import page_or_fragment, wants_fragment
from webapp.interfaces.pages.api_docs import Group, Shape, groups_of, shapes_of
from webapp.interfaces.pages.context import may_of
from webapp.interfaces.pages.launching.cost import cluster_now
from webapp.interfaces.pages.overview import MOST, PARTS, queued
from webapp.interfaces.pages.overview import overview as overview_of
from webapp.interfaces.pages.prediction.listing import named
from webapp.interfaces.pages.search import search
from webapp.reporting.status.status import status_now
from webapp.reporting.status.troubles import status_payload
from webapp.science.predictions.selectors import awaiting_review

DIGEST_CHARACTERS = 8


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


def overview(request: HttpRequest) -> HttpResponse:
    """The page; for htmx the parts whose digest is not in `seen`, or 204 where there are none.

    The worker is asked by the fragment alone: the page does not wait for it.
    """
    project = current_project(request)
    said = overview_of(project)
    reviews = list(named(awaiting_review(signed_in(request), project))[: MOST + 1])
    said |= {"reviews": reviews[:MOST], "more_reviews": len(reviews) > MOST}
    is_fragment = wants_fragment(request)
    said["may"] = may_of(request)
    said["has_tiny_model"] = BASE_MODEL in available_models(default_home())
    said["troubles"] = cluster_now().troubles if is_fragment else []
    parts = {name: _part(name, said) for name in ("health", *PARTS)}
    digests = {name: _digest(name + html) for name, html in parts.items()}
    context: dict[str, Any] = said | {"parts": parts, "seen": ",".join(digests.values())}
    if not is_fragment:
        response = render(request, "overview.html", context)
    else:
        seen = request.GET.get("seen", "").split(",")
        changed = {name: html for name, html in parts.items() if digests[name] not in seen}
        response = _changed(request, changed, context)
    patch_vary_headers(response, ["HX-Request", "HX-History-Restore-Request"])
    return response


def _part(name: str, said: dict[str, Any]) -> SafeString:
    """A part's HTML; nothing at all, not even a line's end, where it has nothing to say: its place is then closed."""
    return SafeString(render_to_string(f"overview/_{name}.html", said).strip())  # nosec B703  # a template escapes


def _changed(request: HttpRequest, changed: dict[str, SafeString], context: dict[str, Any]) -> HttpResponse:
    if not changed:
        return HttpResponse(status=204)
    return render(request, "overview/_changed.html", context | {"changed": changed})


def _digest(html: str) -> str:
    return sha256(html.encode()).hexdigest()[:DIGEST_CHARACTERS]
