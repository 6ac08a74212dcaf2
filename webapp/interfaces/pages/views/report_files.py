"""A report as a file: self-contained HTML."""

import re

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from webapp.interfaces.pages.report import reading


def as_html(request: HttpRequest, report_id: str) -> HttpResponse:
    """One file that needs nothing else."""
    from webapp.reporting.reports.export import html_of  # few ask for a file, and matplotlib comes with it

    version = reading.asked_version(request, reading.get_report(request, report_id))
    base = request.build_absolute_uri("/").rstrip("/")
    text = html_of(version, reading.byline(version), timezone.now(), base)
    name = re.sub(r"[^A-Za-z0-9]+", "-", version.title).strip("-").lower()[:60] or "report"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.html"',
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(text, content_type="text/html; charset=utf-8", headers=headers)
