"""A version of a report as its page, its link and its files show it."""

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.utils import timezone

from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.pages.access import allow, current_project, granted
from webapp.reporting.reports import selectors
from webapp.reporting.reports.models import Publication, Report
from webapp.reporting.reports.selectors import Version


def get_report(request: HttpRequest, key: str) -> Report:
    """A report of the current project. Raises NotFound."""
    return selectors.report_by_id(current_project(request), key)


def asked_publication(request: HttpRequest, report: Report) -> Publication | None:
    """The version that the query names, else the newest; None where none is published. Http404 for one there is not."""
    wanted = request.GET.get("version", "")
    if not wanted:
        return selectors.publication_of(report)
    number = int(wanted) if wanted.isascii() and wanted.isdecimal() and len(wanted) < 9 else -1
    found = selectors.publication_of(report, number)
    if found is None:
        raise Http404(f"There is no version {wanted[:12]}.")
    return found


def asked_version(request: HttpRequest, report: Report) -> Version:
    """What a file shows: ?version=N, ?as=published or live, or ?draft=1 for those who may write."""
    if request.GET.get("draft") == "1":
        try:
            allow(request, report.project, Permission.CONTRIBUTE)
        except PermissionDenied:
            raise Http404("no such draft") from None
        return selectors.draft_version(report.project, report.title, report.text)
    publication = asked_publication(request, report)
    if publication is None:
        raise Http404("nothing is published")
    return selectors.published_version(report.project, publication, live=asked_live(request))


def asked_live(request: HttpRequest) -> bool | None:
    """?as=live or ?as=published; None for what the author chose."""
    return {"live": True, "published": False}.get(request.GET.get("as", ""))


def may_write(request: HttpRequest) -> bool:
    return Permission.CONTRIBUTE in granted(request)


def byline(version: Version) -> list[str]:
    """Who wrote it and when it was published, and of when its numbers are."""
    now = timezone.now()
    if version.publication is None:
        return [f"A draft. Numbers as of {now:%-d %B %Y, %H:%M} UTC."]
    made = version.publication
    authors = ", ".join(made.authors)
    lines = [f"Version {made.number}, published {made.published_at:%-d %B %Y} by {authors}."]
    if version.is_frozen:
        return [*lines, f"Numbers as of its publication, {made.published_at:%-d %B %Y, %H:%M} UTC."]
    return [*lines, f"Numbers as of {now:%-d %B %Y, %H:%M} UTC."]
