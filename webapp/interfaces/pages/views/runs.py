"""The list of runs: its page, and as files.

What the runs list sends: completions of its filter, actions on many runs, saved views.
"""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    QueryDict,
    StreamingHttpResponse,
)
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from webapp.base.errors import Conflict, InvalidInput, NotFound, ServiceError
from webapp.base.formats import whole_in
from webapp.interfaces.pages.access import allow, current_project, signed_in
from webapp.interfaces.pages.answers import page_or_fragment, refusal_json, refusal_text
from webapp.interfaces.pages.forms import new_key
from webapp.interfaces.pages.run.meaning import many_changes_in, names_of, previews
from webapp.interfaces.pages.run_list import bulk_words, export
from webapp.interfaces.pages.run_list.list_page import list_page, state_from
from webapp.interfaces.pages.run_list.listing import ListState, everything, state_of
from webapp.record.runs import bulk, editing
from webapp.record.runs.filtering import compile_filter
from webapp.record.runs.filtering.completing import completions
from webapp.record.runs.models import Run
from webapp.record.savedviews import services
from webapp.record.savedviews.models import SavedView
from webapp.record.savedviews.selectors import views_of

Pieces = Callable[[Iterator[export.Values], ListState], Iterator[str]]
FORMS: dict[str, tuple[Pieces, str]] = {
    "csv": (lambda rows, state: export.csv_lines(rows, state.columns), "text/csv; charset=utf-8"),
    "json": (export.json_pieces, "application/json"),
}
MOST_COMPARED = 100
TOO_MANY_COMPARED = (
    f"More runs were chosen than can be compared: these are the first {MOST_COMPARED} of them."
)
CHANGED = {  # what is done with a saved view -> what is said then
    "overwrite": "Saved what the list shows now.",
    "rename": "Renamed the view.",
    "share": "Every member of the project sees this view now.",
    "unshare": "Only you see this view now.",
    "default": "Your list opens with this view from now on.",
    "no-default": "Your list opens with all runs again.",
    "delete": "",
}
SHOWN = 12  # runs that a confirmation names
PREVIEWED = 5  # whose curves it draws


def runs(request: HttpRequest) -> HttpResponse:
    """The list; asked by htmx, what it swaps; with the header X-Cursor, what changed since."""
    return list_page(request)


def download(request: HttpRequest, form: str) -> HttpResponseBase:
    """All runs of the list at this address, on every page of it, streamed; 422 with the reason where there is none."""
    project, user = current_project(request), signed_in(request)
    state = state_of(request.GET, views_of(user, project))
    try:
        ids = export.ids_of(project, state, compile_filter(state.filter, user=user))
    except InvalidInput as error:
        return refusal_text(error) if form == "csv" else refusal_json(error)
    pieces, content_type = FORMS[form]
    rows = export.values_of(project, ids, state.columns)
    response = StreamingHttpResponse(pieces(rows, state), content_type=content_type)
    day = timezone.now().date().isoformat()
    response["Content-Disposition"] = f'attachment; filename="runs-{project.slug}-{day}.{form}"'
    return response


def complete(request: HttpRequest) -> HttpResponse:
    """What could stand at place `at` of the filter `text`, as JSON."""
    text, at = request.GET.get("text", "")[:2000], request.GET.get("at", "")
    place = whole_in(at, 5)
    place = len(text) if place is None else min(place, len(text))
    return JsonResponse(completions(current_project(request), signed_in(request), text, place))


def act(request: HttpRequest) -> HttpResponse:
    """GET asks what an action on the chosen runs will do; POST does it, once, and goes back to the list."""
    asked = request.POST if request.method == "POST" else request.GET
    action, project = asked.get("action", ""), current_project(request)
    if action in bulk.NEEDS:
        allow(request, project, bulk.NEEDS[action])
    try:
        ids = _chosen(request, asked, action)
        if action == "compare":
            if len(ids) > MOST_COMPARED:
                messages.info(request, TOO_MANY_COMPARED, extra_tags="warn")
            return redirect(f"{reverse('compare')}?{urlencode([('run', pk) for pk in ids[:MOST_COMPARED]])}")
        if request.method == "POST":
            return _done(request, action, ids)
    except ServiceError as error:
        return _change_refused(request, asked, error)
    return _ask(request, action, ids)


def preview(request: HttpRequest) -> HttpResponse:
    """The curves of the first ticked runs as they would be if this were said of their metrics; nothing is stored."""
    ids = _ticked(request.POST)
    found = Run.objects.filter(project=current_project(request)).defer("config").in_bulk(ids)
    runs = [found[pk] for pk in ids if pk in found]
    context: dict[str, Any] = {"more": max(0, len(runs) - PREVIEWED)}
    try:
        said = many_changes_in(request.POST.dict()).get(editing.MEANING, {})
        context["curves"] = previews(runs[:PREVIEWED], said)
    except InvalidInput as error:
        context["problem"] = error.message
    return render(request, "runs/_bulk_preview.html", context)


def _chosen(request: HttpRequest, asked: QueryDict, action: str) -> list[str]:
    """Ids of ticked runs, or of all that the filter leaves. Raises InvalidInput."""
    if action != "compare" and action not in bulk.ACTIONS:
        raise InvalidInput("action", f"action must be compare, {', '.join(bulk.ACTIONS)}.")
    if asked.get("all") != "1":
        found = _ticked(asked)
    else:
        limit = MOST_COMPARED if action == "compare" else bulk.most_for(action)
        compiled = compile_filter(asked.get("filter", ""), user=signed_in(request))
        found = everything(compiled, current_project(request), limit)
        if len(found) > limit and action != "compare":
            raise InvalidInput(
                "runs", f"More than {limit:,} runs fit; {action} takes at most that many at a time."
            )
    if not found:
        raise InvalidInput("runs", "Tick at least one run first.")
    return found


def _ticked(asked: QueryDict) -> list[str]:
    """Ids of ticked runs, each once."""
    ids = [*asked.getlist("run"), *asked.get("runs", "").split(",")]
    return [pk for pk in dict.fromkeys(ids) if pk]


def _ask(
    request: HttpRequest, action: str, ids: list[str], error: str = "", status: int = 200
) -> HttpResponse:
    among = Run.with_deleted if action == "restore" else Run.objects
    runs = list(
        among.filter(project=current_project(request), pk__in=ids).select_related("summary").defer("config")
    )
    asked = request.POST if request.method == "POST" else request.GET
    context = {
        "action": action,
        "title": bulk_words.title(action, runs),
        "sentences": bulk_words.consequences(action, runs),
        "named": runs[:SHOWN],
        "unnamed": max(0, len(runs) - SHOWN),
        "ids": ",".join(run.pk for run in runs),
        "needs_tag": action in bulk.NEEDS_TAG,
        "tags": sorted({tag for run in runs for tag in run.tags}) if action == "untag" else [],
        "tag": asked.get("tag", ""),
        "priorities": Run.Priority.choices,
        "sent": asked,
        "names": names_of(runs[:SHOWN]) if action == "change" else [],
        "key": new_key(),
        "back": asked.get("back", ""),
        "error": error,
    }
    return page_or_fragment(request, "runs/bulk.html", "runs/_bulk.html", context, status)


def _done(request: HttpRequest, action: str, ids: list[str]) -> HttpResponse:
    asked = bulk.BulkRequest(
        action=action,
        run_ids=ids,
        key=request.POST.get("key", ""),
        tag=request.POST.get("tag", ""),
        priority=whole_in(request.POST.get("priority", ""), 2),
        changes=many_changes_in(request.POST.dict()) if action == "change" else None,
    )
    row = bulk.act(asked, user=signed_in(request), project=current_project(request))
    query = QueryDict(request.POST.get("back", "")[:8000], mutable=True)
    query["report"] = str(row.pk)
    return redirect(f"{reverse('runs')}?{query.urlencode()}")


def _change_refused(request: HttpRequest, asked: QueryDict, error: ServiceError) -> HttpResponse:
    """A wrong tag, priority or change is asked for again; anything else is said above the list."""
    action = asked.get("action", "")
    if error.field in ("tag", "priority") or (action == "change" and error.field not in ("runs", "key")):
        return _ask(request, action, _ticked(asked), error.message, error.status)
    state_from(request, asked.get("back", ""))
    return list_page(request, problem=error.message, status=error.status)


def save_view(request: HttpRequest) -> HttpResponse:
    """A new saved view of what the list shows now."""
    sent, who = request.POST, _who(request)
    state_from(request, sent.get("back", ""))
    try:
        view = services.create_view(
            name=sent.get("name", ""), shared=sent.get("shared") == "on", **_shown(request), **who
        )
        if sent.get("default") == "on":
            services.set_default(view.pk, **who)
    except (InvalidInput, Conflict, NotFound) as error:
        return list_page(request, problem=f"The view was not saved. {error.message}", status=error.status)
    messages.info(request, f"Saved the view “{view}”.")
    return redirect(f"{reverse('runs')}?view={view.pk}")


def change_view(request: HttpRequest, view_id: int) -> HttpResponse:
    """Overwrite, rename, share, unshare or delete a saved view, or make it the one that the list opens with."""
    sent = request.POST
    state_from(request, sent.get("back", ""))
    do = sent.get("do", "")
    try:
        if do not in CHANGED:
            raise InvalidInput("do", f"do must be one of {', '.join(CHANGED)}.")
        if do == "delete":
            return _delete_view(request, view_id if view_id < 2**63 else 0)
        _change_view(request, do, view_id if view_id < 2**63 else 0)
    except ServiceError as error:
        return list_page(request, problem=error.message, status=error.status)
    messages.info(request, CHANGED[do])
    return redirect(f"{reverse('runs')}?view={view_id}")


def _change_view(request: HttpRequest, do: str, view_id: int) -> None:
    who = _who(request)
    if do in ("default", "no-default"):
        services.set_default(view_id if do == "default" else None, **who)
        return
    who |= {"version": _version(request)}
    if do == "overwrite":
        services.overwrite_view(view_id, **_shown(request), **who)
    elif do == "rename":
        services.rename_view(view_id, name=request.POST.get("name", ""), **who)
    else:
        services.share_view(view_id, shared=do == "share", **who)


def _delete_view(request: HttpRequest, view_id: int) -> HttpResponse:
    name = SavedView.objects.filter(pk=view_id).values_list("name", flat=True).first()
    said = "This view had been deleted before."
    if services.delete_view(view_id, version=_version(request), **_who(request)):
        said = f"Deleted the view “{name}”. Its runs are as they were."
    messages.info(request, said)
    return redirect(f"{reverse('runs')}?view=all")


def _who(request: HttpRequest) -> dict[str, Any]:
    return {"user": signed_in(request), "project": current_project(request)}


def _version(request: HttpRequest) -> int:
    return whole_in(request.POST.get("version", "")) or 0


def _shown(request: HttpRequest) -> dict[str, Any]:
    """What the list shows now, as a view keeps it."""
    state = state_of(request.GET, views_of(**_who(request)))
    return {
        "filter": state.filter,
        "columns": state.columns if state.column_list else (),
        "sort": state.sort,
    }
