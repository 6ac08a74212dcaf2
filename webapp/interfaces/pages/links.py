"""What every shared link answers alike: that it shows nothing any more, and that no search engine keeps it."""

from http import HTTPStatus

from django.http import HttpResponse
from django.template.loader import render_to_string

from webapp.reporting.shares.models import Share

WORDS = {
    "unknown": ("There is no such link", "It may have been cut short when it was copied: ask for it again."),
    "revoked": ("This link was closed", "Whoever shared it has closed it. Ask for a new one."),
    "expired": ("This link has expired", "It was open until {until}. Ask for a new one."),
    "deleted": ("Nothing is left to show", "What this link showed has been deleted."),
    "withdrawn": ("Nothing is published here", "The report was withdrawn. Ask whoever shared it."),
}


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
