"""Reports: the list, reading, writing with a preview, publishing, and their history.

A report as a file: self-contained HTML.
"""

import re
from contextlib import suppress
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from webapp.base.errors import InvalidInput, ServiceError
from webapp.base.formats import whole_in
from webapp.interfaces.pages import report_picker
from webapp.interfaces.pages.access import current_project, signed_in
from webapp.interfaces.pages.answers import refusal_json, telling
from webapp.interfaces.pages.forms import new_key
from webapp.interfaces.pages.report_picker import TITLE, example
from webapp.reporting.reports import selectors, services
from webapp.reporting.reports.models import Report

PAGE_SIZE, MOST_DRAFTS = 30, 50


def reports(request: HttpRequest) -> HttpResponse:
    """Published reports, and for those who write drafts of theirs and of others; ?archived=1: those put away."""
    project, archived = current_project(request), request.GET.get("archived") == "1"
    rows = selectors.listed(project, archived=archived and report_picker.may_write(request))
    page = Paginator(rows.exclude(version=None).order_by("-published_at", "id"), PAGE_SIZE).get_page(
        request.GET.get("page")
    )
    mine, others = _drafts(request, rows)
    context = {"page": page, "mine": mine, "others": others, "archived": archived, "key": new_key()}
    context["is_empty"] = not (page.paginator.count or mine or others or archived)
    return render(request, "reports/list.html", context)


def _drafts(request: HttpRequest, rows: Any) -> tuple[list[Report], list[Report]]:
    """Texts that are not published as they are: the reader's own, and those of others. None for who may only read."""
    if not report_picker.may_write(request):
        return [], []
    drafts = rows.filter(published_text=False)
    wrote = selectors.written_by(drafts, signed_in(request))
    own = [one for one in drafts[: 2 * MOST_DRAFTS] if one.pk in wrote]
    return own[:MOST_DRAFTS], [one for one in drafts[: 2 * MOST_DRAFTS] if one.pk not in wrote][:MOST_DRAFTS]


def new_report(request: HttpRequest) -> HttpResponse:
    """A new draft, empty or with the example, opened for writing."""
    project = current_project(request)
    with_example = request.POST.get("example") == "1"
    made = services.create_report(
        user=signed_in(request), project=project, key=request.POST.get("key"),
        title=TITLE if with_example else request.POST.get("title", "").strip() or "Untitled report",
        text=example(project) if with_example else "",
    )  # fmt: skip
    return redirect("edit-report", made.pk)


def report(request: HttpRequest, report_id: str) -> HttpResponse:
    """A published version; who may write is sent to the draft where nothing is published, others find nothing."""
    found = report_picker.get_report(request, report_id)
    if (publication := report_picker.asked_publication(request, found)) is None:
        if report_picker.may_write(request):
            return redirect("edit-report", found.pk)
        raise Http404("nothing is published")
    if found.archived_at is not None and not report_picker.may_write(request):
        raise Http404("archived")
    version = selectors.published_version(found.project, publication, live=report_picker.asked_live(request))
    others = list(found.publications.filter(withdrawn_at=None).values_list("number", "published_at"))
    context = {
        "report": found,
        "version": version,
        "publication": publication,
        "others": others,
        "newest": others[0][0],
        "owner": _is_owner(request, found),
        "ahead": (found.title, found.text) != (publication.title, publication.text),
    }
    return render(request, "reports/page.html", context)


def _is_owner(request: HttpRequest, found: Report) -> bool:
    """Whether to offer what only authors and admins may do."""
    with suppress(ServiceError):
        services.require_owner(found, signed_in(request))
        return True
    return False


def edit(request: HttpRequest, report_id: str) -> HttpResponse:
    """The text beside its preview."""
    found = report_picker.get_report(request, report_id)
    return render(request, "reports/edit.html", _editor(request, found))


def _editor(request: HttpRequest, found: Report, **more: Any) -> dict[str, Any]:
    version = selectors.draft_version(found.project, found.title, found.text)
    newest = selectors.publication_of(found)
    return {
        "report": found,
        "version": version,
        "newest": newest,
        "ahead": newest is None or (found.title, found.text) != (newest.title, newest.text),
        "picker": report_picker.offered(found.project),
        "longest": services.MOST_CHARACTERS,
        "owner": _is_owner(request, found),
    } | more


def save(request: HttpRequest, report_id: str) -> HttpResponse:
    """Store the draft: asked by the page's script (JSON), or by a plain form."""
    found = report_picker.get_report(request, report_id)
    wants_json = request.accepts("application/json") and not request.accepts("text/html")
    try:
        saved = services.save_draft(
            found, user=signed_in(request), base=_base(request), title=request.POST.get("title", ""),
            text=request.POST.get("text", ""),
        )  # fmt: skip
    except services.DraftConflict as late:
        theirs = {
            "title": late.report.title,
            "text": late.report.text,
            "draft": late.report.draft,
            "who": late.who,
        }
        if wants_json:
            return JsonResponse(
                {"error": {"code": late.code, "message": late.message}, "theirs": theirs}, status=409
            )
        context = _editor(request, late.report, conflict=late.message, mine=late.aside)
        return render(request, "reports/edit.html", context, status=409)
    except ServiceError as error:
        if wants_json:
            return refusal_json(error)
        messages.error(request, error.message)
        return redirect("edit-report", found.pk)
    if wants_json:
        return JsonResponse({"draft": saved.draft, "saved_at": saved.saved_at.isoformat()})
    messages.info(request, "The draft is saved.")
    return redirect("edit-report", found.pk)


def _base(request: HttpRequest) -> int:
    """The draft that was written on; one that cannot be read is that of nobody."""
    return whole_in(request.POST.get("base", "")) or 0


def preview(request: HttpRequest, report_id: str) -> HttpResponse:
    """The text as it would be read, as a region; nothing is stored."""
    found = report_picker.get_report(request, report_id)
    text = request.POST.get("text", "").replace("\r\n", "\n")
    if len(text) > services.MOST_CHARACTERS:
        return HttpResponse("The text is too long to be shown.", status=422, content_type="text/plain")
    version = selectors.draft_version(found.project, request.POST.get("title", ""), text)
    return render(request, "reports/_preview.html", {"version": version})


def block(request: HttpRequest) -> HttpResponse:
    """The text of a block out of the picker's fields, or why it cannot be shown."""
    try:
        return JsonResponse({"text": report_picker.block_of(current_project(request), request.GET)})
    except InvalidInput as error:
        return refusal_json(error)


def publish(request: HttpRequest, report_id: str) -> HttpResponse:
    """The draft as the next version."""
    found = report_picker.get_report(request, report_id)
    is_live = request.POST.get("numbers") != "published"
    with telling(request):
        made = services.publish(found, user=signed_in(request), base=_base(request), is_live=is_live)
        messages.info(
            request, f"Version {made.number} is published: every member of the project can read it."
        )
        return redirect("report", found.pk)
    return redirect("edit-report", found.pk)


def unpublish(request: HttpRequest, report_id: str) -> HttpResponse:
    """Withdraw all published versions."""
    found = report_picker.get_report(request, report_id)
    with telling(request):
        services.unpublish(found, user=signed_in(request))
        messages.info(request, "It is withdrawn: readers and links see it no more. The draft is as it was.")
        return redirect("edit-report", found.pk)
    return redirect("report", found.pk)


def archive(request: HttpRequest, report_id: str) -> HttpResponse:
    """Put a report away, or (`archived` 0) take it back."""
    found = report_picker.get_report(request, report_id)
    away = request.POST.get("archived") != "0"
    with telling(request):
        services.archive(found, user=signed_in(request), archived=away)
        messages.info(request, "It is in the archive." if away else "It is back in the list.")
        return redirect("reports")
    return redirect("report", found.pk)


def history(request: HttpRequest, report_id: str) -> HttpResponse:
    """Versions, drafts, and texts that came too late, each with what it changed."""
    found = report_picker.get_report(request, report_id)
    return render(request, "reports/history.html", {"report": found, "steps": selectors.history(found)})


def as_html(request: HttpRequest, report_id: str) -> HttpResponse:
    """One file that needs nothing else."""
    from webapp.reporting.reports.export import html_of  # few ask for a file, and matplotlib comes with it

    version = report_picker.asked_version(request, report_picker.get_report(request, report_id))
    base = request.build_absolute_uri("/").rstrip("/")
    text = html_of(version, report_picker.byline(version), timezone.now(), base)
    name = re.sub(r"[^A-Za-z0-9]+", "-", version.title).strip("-").lower()[:60] or "report"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.html"',
        "X-Content-Type-Options": "nosniff",
    }
    return HttpResponse(text, content_type="text/html; charset=utf-8", headers=headers)
