"""A report as a file: self-contained HTML, and PDF."""

import re

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from webapp.interfaces.pages.report import reading
from webapp.reporting.reports.export import html_of


def as_html(request: HttpRequest, report_id: str) -> HttpResponse:
    """One file that needs nothing else."""
    version = reading.asked_version(request, reading.get_report(request, report_id))
    text = html_of(version, reading.byline(version), timezone.now(), _base(request))
    return _download(text.encode(), "text/html; charset=utf-8", version.title, "html")


def as_pdf(request: HttpRequest, report_id: str) -> HttpResponse:
    """The same as PDF."""
    # Here: its fonts would take a quarter of a second of every start, and few ask for one.
    from webapp.reporting.reports.pdf import pdf_of

    version = reading.asked_version(request, reading.get_report(request, report_id))
    data = pdf_of(version, reading.byline(version), timezone.now(), _base(request))
    return _download(data, "application/pdf", version.title, "pdf")


def _base(request: HttpRequest) -> str:
    return request.build_absolute_uri("/").rstrip("/")


def _download(data: bytes, kind: str, title: str, ending: str) -> HttpResponse:
    name = re.sub(r"[^A-Za-z0-9]+", "-", title).strip("-").lower()[:60] or "report"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.{ending}"',
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(data, content_type=kind, headers=headers)
