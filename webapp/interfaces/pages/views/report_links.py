"""Links that show a published report without an account."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from webapp.base.errors import ServiceError
from webapp.interfaces.pages.access import signed_in
from webapp.interfaces.pages.answers import gone, unlisted
from webapp.interfaces.pages.report import reading
from webapp.reporting.reports import selectors, services
from webapp.reporting.shares import services as share_services
from webapp.reporting.shares.selectors import share_by_token

DAYS = (("30", "for 30 days"), ("7", "for 7 days"), ("365", "for a year"), ("", "until somebody closes it"))


@never_cache
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
        "rows": [(link, link.state_at(now)) for link in selectors.links_of(found)],
        "days": DAYS,
        "problem": problem,
        "published": selectors.publication_of(found) is not None and found.archived_at is None,
        "address": request.build_absolute_uri(reverse("shared-report", args=[token])) if token else "",
    }
    return render(request, "reports/links.html", context, status=422 if problem else 200)


def revoke(request: HttpRequest, report_id: str, link_id: int) -> HttpResponse:
    """Close a link; closing it again changes nothing."""
    found = reading.get_report(request, report_id)
    link = selectors.links_of(found).filter(pk=link_id).first() if link_id < 2**63 else None
    if link is None:
        raise Http404("no such link")
    share_services.revoke_share(link, user=signed_in(request))
    messages.info(request, "The link is closed: it shows nothing from now on.")
    return redirect("report-links", found.pk)


def shared(request: HttpRequest, token: str) -> HttpResponse:
    """The newest published version, for whoever has the link; the same for everybody, signed in or not."""
    link = share_by_token(token, of_report=True)
    if link is None:
        return gone(None, "unknown")
    state = link.state_at(timezone.now())
    if state != "open":
        return gone(link, state)
    report = selectors.report_of_link(link)
    publication = selectors.publication_of(report) if report is not None else None
    if report is None or publication is None or report.archived_at is not None:
        return gone(link, "withdrawn")
    share_services.note_visit(link)
    version = selectors.published_version(report.project, publication)
    context = {
        "version": version,
        "publication": publication,
        "byline": reading.byline(version),
    }
    return unlisted(HttpResponse(render_to_string("reports/shared.html", context)))
