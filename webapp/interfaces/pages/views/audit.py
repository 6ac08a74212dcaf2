"""The audit log: its page, and as files."""

from collections.abc import Callable, Iterator
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from webapp.base.errors import InvalidInput
from webapp.base.formats import whole_in
from webapp.identity.accounts.selectors import members_of
from webapp.identity.audit import selectors
from webapp.identity.audit.models import Event
from webapp.identity.audit.selectors import (
    WORDS,
    EventFilter,
    asked_by,
    detail_words,
    events_of_organisation,
    events_of_project,
    narrowed,
    page_of,
    rows_of,
    words_of,
)
from webapp.identity.audit.services import record
from webapp.interfaces.exports.forms import download
from webapp.interfaces.pages.access import current_project, signed_in
from webapp.interfaces.pages.answers import refusal_text
from webapp.interfaces.pages.team_forms import AuditForm

FORMATS: dict[str, Callable[..., Iterator[Any]]] = {
    "csv": selectors.csv_lines,
    "jsonl": selectors.jsonl_lines,
}
LINKED = {"run": "run", "recipe": "recipe", "study": "study"}  # kind of thing -> its page
ORGANISATION = "organisation"
MAX_ID = 2**63 - 1


@never_cache
def audit(request: HttpRequest) -> HttpResponse:
    """Who changed what, newest first; of the project, or for owners of the whole organisation."""
    asked, problem = _asked(request)
    events, next_before = page_of(narrowed(_scope(request), asked), before=_before(request))
    context = {
        "form": AuditForm(request.GET),
        "problem": problem,
        "rows": [_row(event) for event in events],
        "next_before": next_before,
        "is_newest": _before(request) is None,
        "is_narrowed": asked != EventFilter(),
        "of_organisation": _of_organisation(request),
        "is_owner": _is_owner(request),
        "people": [row.user.username for row in members_of(current_project(request))],
        "verbs": sorted(WORDS),
    }
    return render(request, "audit/log.html", context, status=problem.status if problem else 200)


def export(request: HttpRequest, form: str) -> HttpResponseBase:
    """What the page would show, all of it, streamed. That it was taken is itself an event."""
    try:
        asked = asked_by(request.GET)
    except InvalidInput as error:
        return refusal_text(error)
    project, whole = current_project(request), _of_organisation(request)
    name = project.organisation.slug if whole else project.slug
    events = narrowed(_scope(request), asked)
    record(
        "audit.exported", actor=signed_in(request), project=project, kind="audit_log", key=name, name=name,
        format=form, of="organisation" if whole else "project",
    )  # fmt: skip
    day = timezone.now().date().isoformat()
    return download(form, f"audit-{name}-{day}", FORMATS[form](rows_of(events)))


def _asked(request: HttpRequest) -> tuple[EventFilter, InvalidInput | None]:
    try:
        return asked_by(request.GET), None
    except InvalidInput as error:
        return EventFilter(), error


def _before(request: HttpRequest) -> int | None:
    before = whole_in(request.GET.get("before", ""), 19)
    return None if before is None else min(before, MAX_ID)


def _scope(request: HttpRequest) -> QuerySet[Event]:
    project = current_project(request)
    if _of_organisation(request):
        return events_of_organisation(project.organisation)
    return events_of_project(project)


def _of_organisation(request: HttpRequest) -> bool:
    """Whether the whole organisation is asked for. Raises PermissionDenied for who does not own it."""
    if request.GET.get("of") != ORGANISATION:
        return False
    if not _is_owner(request):
        raise PermissionDenied("Only an owner of the organisation sees the log of all its projects.")
    return True


def _is_owner(request: HttpRequest) -> bool:
    return current_project(request).organisation.owners.filter(pk=signed_in(request).pk).exists()


def _row(event: Event) -> dict[str, Any]:
    page = LINKED.get(event.object_kind)
    return {
        "event": event,
        "words": words_of(event.verb, event.object_kind),
        "detail": detail_words(event.detail),
        "url": reverse(page, args=[event.object_id]) if page and event.object_id else None,
    }
