"""The decision log: the list, one decision, its form, and the same rows as CSV."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render

from webapp.base.errors import InvalidInput, ServiceError
from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.access import current_project, signed_in
from webapp.interfaces.pages.decision_forms import DecisionForm, initial_of
from webapp.interfaces.pages.forms import add_service_error
from webapp.record.runs.models import Run
from webapp.science.decisions import selectors, services
from webapp.science.decisions.models import Decision, DecisionKind
from webapp.science.decisions.table import COLUMNS, rows_of

PAGE_SIZE = 30
MOST_ROWS = 5000  # of a CSV file
FILTERS = ("person", "run", "kind")


def decisions(request: HttpRequest) -> HttpResponse:
    """The log, newest first, filtered by person, run and kind, with what came of each."""
    project = current_project(request)
    asked, problem = _asked(request)
    page = Paginator(selectors.decisions_of(project, **asked), PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "entries": selectors.entries(page.object_list),
        "asked": asked,
        "problem": problem,
        "filtered": any(asked.values()),
        "people": selectors.people_of(project),
        "kinds": DecisionKind.choices,
    }
    return render(request, "decisions/list.html", context)


def _asked(request: HttpRequest) -> tuple[dict[str, str], str]:
    """The filters of the query; a kind that there is not is left out, and said."""
    asked = {name: request.GET.get(name, "") for name in FILTERS}
    if asked["kind"] and asked["kind"] not in DecisionKind.values:
        return asked | {"kind": ""}, f"There is no kind “{asked['kind'][:40]}”: all kinds are shown."
    return asked, ""


def decisions_csv(request: HttpRequest) -> HttpResponse:
    """The same rows, with their numbers, as CSV."""
    from webapp.interfaces.api.tables import table

    asked, _ = _asked(request)
    found = selectors.decisions_of(current_project(request), **asked)[:MOST_ROWS]
    return table("decisions", COLUMNS, rows_of(selectors.entries(found)))


def decision(request: HttpRequest, decision_id: str) -> HttpResponse:
    """One decision: how things stood, why, what came of it, and its notes."""
    found = selectors.decision_by_id(current_project(request), decision_id)
    entry = selectors.entries([found])[0]
    return render(request, "decisions/decision.html", _detail(entry) | {"text": "", "error": ""})


def _detail(entry: selectors.Entry) -> dict[str, Any]:
    notes = entry.decision.notes.select_related("author")
    return {"entry": entry, "decision": entry.decision, "notes": list(notes), "longest": services.LONGEST}


def new_decision(request: HttpRequest) -> HttpResponse:
    """The form for the runs in the query, and storing what it says."""
    project = current_project(request)
    sent = request.POST if request.method == "POST" else request.GET
    old = selectors.decision_by_id(project, sent["revises"]) if sent.get("revises") else None
    runs = _runs(project, sent.getlist("run"), old)
    if not runs:
        return render(
            request, "decisions/new.html", {"runs": []}, status=200 if request.method == "GET" else 422
        )
    first = {"kind": sent["kind"]} if sent.get("kind") in DecisionKind.values else {}
    form = DecisionForm(request.POST or None, project=project, runs=runs, **(initial_of(old) | first))
    if request.method == "POST" and form.is_valid():
        answer = _try_decide(request, project, form, old)
        if answer is not None:
            return answer
    context = {"form": form, "runs": runs, "revises": old}
    return render(request, "decisions/new.html", context, status=422 if form.errors else 200)


def _try_decide(
    request: HttpRequest, project: Project, form: DecisionForm, old: Decision | None
) -> HttpResponseRedirect | None:
    """Where the stored decision is, or None with the reason in the form."""
    try:
        decision, to_run = form.decision(old)
        key = form.cleaned_data["key"]
        made = services.decide(decision, form.runs, to_run, user=signed_in(request), project=project, key=key)
    except ServiceError as error:
        add_service_error(form, error.field, error.message)
        return None
    messages.info(request, "The decision is in the log.")
    return redirect("decision", made.pk)


def add_note(request: HttpRequest, decision_id: str) -> HttpResponse:
    """A note below a decision."""
    found = selectors.decision_by_id(current_project(request), decision_id)
    try:
        services.add_note(found, user=signed_in(request), text=request.POST.get("text", ""))
    except InvalidInput as error:
        context = _detail(selectors.entries([found])[0])
        context |= {"text": request.POST.get("text", ""), "error": error.message}
        return render(request, "decisions/decision.html", context, status=422)
    return redirect("decision", found.pk)


def _runs(project: Project, ids: list[str], old: Decision | None) -> list[Run]:
    """The runs that are named, or those of the decision that is revised. Http404 for one that is not there."""
    wanted = list(dict.fromkeys(one for one in ids if one))
    if not wanted and old is not None:
        wanted = [one.run_key for one in old.subjects.all() if one.part == "of" and one.run_id]
    found = Run.objects.filter(project=project, pk__in=wanted[: services.MOST_RUNS + 1])
    by_id = found.select_related("revision__recipe").in_bulk()
    if any(pk not in by_id for pk in wanted[: services.MOST_RUNS + 1]):
        raise Http404("There is no such run in this project.")
    return [by_id[pk] for pk in wanted[: services.MOST_RUNS + 1]]
