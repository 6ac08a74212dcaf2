"""Links that show a published report without an account."""

from http import HTTPStatus

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.errors import ServiceError
from webapp.pages.access import signed_in
from webapp.pages.report import reading
from webapp.reports import selectors, services
from webapp.reports.models import ReportLink

DAYS = (("30", "for 30 days"), ("7", "for 7 days"), ("365", "for a year"), ("", "until somebody closes it"))
WORDS = {
    "unknown": ("There is no such link", "It may have been cut short when it was copied: ask for it again."),
    "revoked": ("This link was closed", "Whoever shared it has closed it. Ask for a new one."),
    "expired": ("This link has expired", "It was open until {until}. Ask for a new one."),
    "withdrawn": ("Nothing is published here", "The report was withdrawn. Ask whoever shared it."),
}


@login_required
@never_cache
@require_http_methods(["GET", "POST"])
def links(request: HttpRequest, report_id: str) -> HttpResponse:
    """The links to a report, and a new one, which is shown once."""
    found = reading.get_report(request, report_id)
    token, problem = "", ""
    if request.method == "POST":
        days = request.POST.get("days", "")
        try:
            number = (
                None
                if not days
                else int(days)
                if days.isascii() and days.isdecimal() and len(days) < 6
                else 0
            )
            token = services.create_link(found, user=signed_in(request), days=number)
        except ServiceError as error:
            problem = error.message
    now = timezone.now()
    context = {
        "report": found,
        "rows": [(link, link.state_at(now)) for link in found.links.select_related("created_by")],
        "days": DAYS,
        "problem": problem,
        "published": selectors.publication_of(found) is not None and found.archived_at is None,
        "address": request.build_absolute_uri(reverse("shared-report", args=[token])) if token else "",
    }
    return render(request, "reports/links.html", context, status=422 if problem else 200)


@login_required
@require_POST
def revoke(request: HttpRequest, report_id: str, link_id: int) -> HttpResponse:
    """Close a link; closing it again changes nothing."""
    found = reading.get_report(request, report_id)
    link = found.links.filter(pk=link_id).first() if link_id < 2**63 else None
    if link is None:
        raise Http404("no such link")
    services.revoke_link(link, user=signed_in(request))
    messages.info(request, "The link is closed: it shows nothing from now on.")
    return redirect("report-links", found.pk)


@require_safe
def shared(request: HttpRequest, token: str) -> HttpResponse:
    """The newest published version, for whoever has the link; the same for everybody, signed in or not."""
    link = selectors.link_by_token(token)
    if link is None:
        return _gone(None, "unknown")
    state = link.state_at(timezone.now())
    if state != "open":
        return _gone(link, state)
    publication = selectors.publication_of(link.report)
    if publication is None or link.report.archived_at is not None:
        return _gone(link, "withdrawn")
    services.note_visit(link)
    version = selectors.published_version(link.report.project, publication)
    context = {
        "version": version,
        "publication": publication,
        "rows": reading.rows_of(version, with_links=False),
        "byline": reading.byline(version),
    }
    return _unlisted(HttpResponse(render_to_string("reports/shared.html", context)))


def _gone(link: ReportLink | None, why: str) -> HttpResponse:
    title, sentence = WORDS[why]
    until = f"{link.expires_at:%-d %B %Y, %H:%M} UTC" if link and link.expires_at else ""
    page = render_to_string("shares/gone.html", {"title": title, "sentence": sentence.format(until=until)})
    status = HTTPStatus.NOT_FOUND if why == "unknown" else HTTPStatus.GONE
    return _unlisted(HttpResponse(page, status=status))


def _unlisted(response: HttpResponse) -> HttpResponse:
    response["X-Robots-Tag"] = "noindex"
    response["Cache-Control"] = "private, no-cache"
    return response
