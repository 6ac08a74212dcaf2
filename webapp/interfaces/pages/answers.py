"""What many views answer alike: the whole page or, to htmx, the region that it swaps; that an address names a recipe
which the project does not have; that a shared link shows nothing any more, and that no search engine keeps it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers

from webapp.base.errors import ServiceError
from webapp.record.recipes.models import Revision
from webapp.reporting.shares.models import Share

WORDS = {
    "unknown": ("There is no such link", "It may have been cut short when it was copied: ask for it again."),
    "revoked": ("This link was closed", "Whoever shared it has closed it. Ask for a new one."),
    "expired": ("This link has expired", "It was open until {until}. Ask for a new one."),
    "deleted": ("Nothing is left to show", "What this link showed has been deleted."),
    "withdrawn": ("Nothing is published here", "The report was withdrawn. Ask whoever shared it."),
}


def wants_fragment(request: HttpRequest) -> bool:
    """Whether htmx asks for a region; going back in history needs the whole page again."""
    htmx = getattr(request, "htmx", None)
    return htmx is not None and bool(htmx) and not htmx.history_restore_request


def page_or_fragment(
    request: HttpRequest, page: str, fragment: str, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    """Render the template that is wanted. One address has two answers, so caches must tell them apart."""
    response = render(request, fragment if wants_fragment(request) else page, context, status=status)
    patch_vary_headers(response, ["HX-Request", "HX-History-Restore-Request"])
    return response


@contextmanager
def telling(
    request: HttpRequest,
    kinds: type[ServiceError] | tuple[type[ServiceError], ...] = ServiceError,
    before: str = "",
) -> Iterator[None]:
    """What a service refuses within is told on the page that follows, after the words `before`."""
    try:
        yield
    except kinds as error:
        messages.warning(request, f"{before}{error.message}")


def refusal_json(error: ServiceError) -> JsonResponse:
    """A refusal as a script reads it, in the form of the API."""
    said = {"code": error.code, "message": error.message, "field": error.field}
    return JsonResponse({"error": said}, status=error.status)


def refusal_text(error: ServiceError) -> HttpResponse:
    """A refusal as the sentence alone."""
    return HttpResponse(error.message, status=error.status, content_type="text/plain; charset=utf-8")


def not_here(request: HttpRequest, shown: Revision) -> str:
    """What is not here, and what is shown instead; empty where the address names what is shown, or nothing."""
    if request.method != "GET" or wants_fragment(request):
        return ""
    slug, number = (request.GET.get(name, "")[:80] for name in ("recipe", "revision"))
    if slug and slug != shown.recipe.slug:
        return f"This project has no recipe “{slug}” (any more). You see {shown.recipe.name}."
    if number and number != str(shown.number):
        return f"{shown.recipe.name} has no revision “{number}”. You see revision {shown.number}."
    return ""


def gone(share: Share | None, why: str) -> HttpResponse:
    """The page of a link that shows nothing; `why` is a key of WORDS."""
    title, sentence = WORDS[why]
    until = f"{share.expires_at:%-d %B %Y, %H:%M} UTC" if share and share.expires_at else ""
    page = render_to_string("shares/gone.html", {"title": title, "sentence": sentence.format(until=until)})
    return unlisted(HttpResponse(page, status=status_of(why)))


def status_of(why: str) -> int:
    """404 for a link that never was, 410 for one that shows nothing any more."""
    return HTTPStatus.NOT_FOUND if why == "unknown" else HTTPStatus.GONE


def unlisted(response: HttpResponse) -> HttpResponse:
    """For no search engine; and pages are asked for anew each time, since a link can be closed."""
    response["X-Robots-Tag"] = "noindex"
    response.headers.setdefault("Cache-Control", "private, no-cache")
    return response
