"""Predictions: the list in its parts, and the whole of it as CSV.

How well a team's claims hold: coverage against what was claimed, and, if the team wants it, who forecasts best.

One prediction: what it claims, what came since, its review, its comments, and the analyses behind its tabs.

How good forecasts were: every run forecast as it went, judged by how it ended, beside simpler methods.
"""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse

from webapp.base.errors import ServiceError
from webapp.base.formats import csv_file, number_in, whole_in
from webapp.identity.accounts.models import User
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.pages.access import current_project, get_in_projects, granted, signed_in
from webapp.interfaces.pages.answers import page_or_fragment, wants_fragment
from webapp.interfaces.pages.forms import decision_panel
from webapp.interfaces.pages.marks import tie_stripes
from webapp.interfaces.pages.prediction import calibration as said
from webapp.interfaces.pages.prediction import form
from webapp.interfaces.pages.prediction import record as told
from webapp.interfaces.pages.prediction.listing import (
    CSV_COLUMNS,
    PARTS,
    SORTS,
    Listing,
    choices_of,
    counts_of,
    csv_rows,
)
from webapp.interfaces.pages.prediction.page import (
    HEAVY,
    REGIONS,
    TABS,
    page_context,
    tab_context,
    version_of,
)
from webapp.science.curves.record import keeping
from webapp.science.curves.record.reading import record
from webapp.science.predictions import selectors, services
from webapp.science.predictions.calibration import HORIZONS, Forecaster, calibration, forecasters
from webapp.science.predictions.models import Comment, Prediction
from webapp.science.predictions.status import REVIEW_WORDS

PAGE_SIZE = 25
Context = dict[str, Any]
GROUPS_OF_RECORD = {"share": "how far was forecast", "task": "task", "recipe": "recipe"}


def predictions(request: HttpRequest) -> HttpResponse:
    """One part of the list. The number of queries does not grow with it."""
    project, reader, asked = current_project(request), signed_in(request), Listing.of(request.GET)
    page = Paginator(asked.rows(project, reader), PAGE_SIZE).get_page(request.GET.get("page"))
    counts = counts_of(project, reader)
    context = {
        "asked": asked,
        "parts": [(name, part, counts[name]) for name, part in PARTS.items()],
        "part": PARTS[asked.part],
        "page": page,
        "rows": [(one, selectors.status_of(one)) for one in page.object_list],
        "none_at_all": not any(counts.values()),
        "sorts": [(key, title) for key, (title, _) in SORTS.items()],
        "reviews": REVIEW_WORDS.items(),
        **choices_of(project),
    }
    return render(request, "predictions/list.html", context)


def predictions_csv(request: HttpRequest) -> HttpResponse:
    """Every prediction of the project, with what came of it."""
    found = selectors.predictions_of(current_project(request))
    return csv_file("predictions", CSV_COLUMNS, csv_rows(found))


def calibration_page(request: HttpRequest) -> HttpResponse:
    """Claimed against observed, of all or of one author, recipe or horizon."""
    project = current_project(request)
    asked = {name: request.GET.get(name, "") for name in ("author", "recipe", "horizon", "by")}
    asked["by"] = asked["by"] if asked["by"] in said.BY else "level"
    asked["horizon"] = asked["horizon"] if asked["horizon"] in {key for key, _, _ in HORIZONS} else ""
    author = User.objects.filter(username=asked["author"], predictions__project=project).first()
    found = calibration(project, author=author, recipe=asked["recipe"], horizon=asked["horizon"])
    context = {
        "asked": asked | {"author": author.username if author else ""},
        "found": found,
        "figure": said.calibration_figure(found, asked["by"]),
        "by": said.BY,
        "headline": said.headline(found.overall),
        "dependence": said.dependence(found.overall),
        "apart": said.apart(found.counts),
        "warnings": said.warnings(found.counts),
        "rows": said.row_cells([*found.of(asked["by"]), found.overall]),
        "horizons": [(key, title) for key, _, title in HORIZONS],
        "board": board(forecasters(project)),
        "ranks": project.ranks_forecasters,
        **choices_of(project),
    }
    return render(request, "predictions/calibration.html", context)


def board(people: list[Forecaster]) -> list[tuple[dict[str, Any], str]]:
    """The forecasters as rows with the bars of their ties."""
    rows = [
        vars(one) | {"tie_group": one.rank, "coverage": said.row_cells([one.coverage])[0]} for one in people
    ]
    return tie_stripes(rows)


def get_prediction(request: HttpRequest, prediction_id: str) -> Prediction:
    """A prediction of one of the reader's projects. Raises Http404, and PermissionDenied for too low a role."""
    return get_in_projects(request, lambda project: selectors.prediction_by_id(project, prediction_id))


def prediction(request: HttpRequest, prediction_id: str) -> HttpResponse:
    """The whole page; asked by htmx, the panel of one tab."""
    found = get_prediction(request, prediction_id)
    tab = request.GET.get("tab", "")
    tab = tab if tab in TABS else next(iter(TABS))
    if wants_fragment(request):
        context = tab_context(tab, found) | {"prediction": found, "tab": tab}
        return page_or_fragment(request, "", "predictions/_tabs.html", context)
    return _page(request, found, tab=tab)


def _page(
    request: HttpRequest, found: Prediction, *, tab: str = next(iter(TABS)), status: int = 200, **more: Any
) -> HttpResponse:
    lazy = tab in HEAVY
    context = _context(request, found) | decision_panel(found) | {"tab": tab, "lazy": lazy} | more
    context |= {"tabs": TABS} if lazy else tab_context(tab, found)
    return render(request, "predictions/prediction.html", context, status=status)


def _context(request: HttpRequest, found: Prediction) -> Context:
    return page_context(found, signed_in(request), granted(request))


def figure(request: HttpRequest, prediction_id: str) -> HttpResponse:
    """The figure and the regions that changed, as JSON; 204 where nothing did since `since`."""
    found = get_prediction(request, prediction_id)
    if request.GET.get("since") == version_of(found):
        return HttpResponse(status=204)
    context = _context(request, found)
    html = {name: render_to_string(template, context, request) for name, template in REGIONS.items()}
    return JsonResponse({"figure": context["figure"], "html": html})


# --- what people do with it -----------------------------------------------------------------------------------


def _done(
    request: HttpRequest, found: Prediction, service: Callable[[], Any], words: str, **kept: Any
) -> HttpResponse:
    """Do it and go back to the page; what is refused is said beside its field, with everything that was typed."""
    try:
        service()
    except ServiceError as error:
        if error.status == 403 or not kept:
            messages.warning(request, error.message)
            return redirect("prediction", found.pk)
        return _page(
            request, found, status=error.status, problem={"field": error.field, "text": error.message, **kept}
        )
    messages.info(request, words)
    return redirect("prediction", found.pk)


def review(request: HttpRequest, prediction_id: str) -> HttpResponse:
    """A verdict."""
    found = get_prediction(request, prediction_id)
    typed = {"verdict": request.POST.get("verdict", ""), "reason": request.POST.get("reason", "")}
    act = lambda: services.review(found, user=signed_in(request), **typed)
    return _done(request, found, act, "Your verdict is kept.", of="review", **typed)


def ask_review(request: HttpRequest, prediction_id: str) -> HttpResponse:
    """Ask people for their verdict."""
    found = get_prediction(request, prediction_id)
    names = request.POST.getlist("reviewers")
    reviewers = list(User.objects.filter(username__in=names))
    allowed = {user.pk for user in form.reviewers_of(found.project, found.author)}
    if not (chosen := [user for user in reviewers if user.pk in allowed]):
        messages.warning(request, "Choose somebody who may review.")
        return redirect("prediction", found.pk)
    act = lambda: services.ask_review(found, user=signed_in(request), reviewers=chosen)
    return _done(request, found, act, f"Asked {', '.join(user.username for user in chosen)}.")


def withdraw(request: HttpRequest, prediction_id: str) -> HttpResponse:
    """Withdraw it, visibly and for good."""
    found = get_prediction(request, prediction_id)
    reason = request.POST.get("reason", "")
    act = lambda: services.withdraw(found, user=signed_in(request), reason=reason)
    return _done(request, found, act, "Withdrawn. It stays here to be seen.", of="withdraw", reason=reason)


# --- comments ---------------------------------------------------------------------------------------------------


def comment(request: HttpRequest, prediction_id: str) -> HttpResponse:
    """A new comment, of its own or in a thread."""
    found = get_prediction(request, prediction_id)
    text, sent_parent = request.POST.get("text", ""), request.POST.get("parent", "")
    parent = _comment(found, parent_id) if (parent_id := whole_in(sent_parent)) is not None else None
    anchor = anchor_of(request.POST.get("anchor", "")) if parent is None else None
    kept: Context = {"text": text, "anchor": request.POST.get("anchor", "")}
    kept |= {"answers": parent.pk} if parent else {"of": "comment"}
    act = lambda: services.comment(found, user=signed_in(request), text=text, parent=parent, anchor=anchor)
    return _said(request, found, act, **kept)


def anchor_of(text: str) -> tuple[float, float] | None:
    """(x, y) out of "4.0,0.512"; None for what is no point."""
    try:
        x, y = (number_in(part) for part in text.split(","))
    except ValueError:
        return None
    return x, y


def change_comment(request: HttpRequest, prediction_id: str, comment_id: int) -> HttpResponse:
    """Edit a comment, or resolve its thread, or open it again."""
    found = get_prediction(request, prediction_id)
    said, user = _comment(found, comment_id), signed_in(request)
    if "resolved" in request.POST:
        resolved = request.POST["resolved"] == "1"
        return _said(request, found, lambda: services.resolve_comment(said, user=user, resolved=resolved))
    text = request.POST.get("text", "")
    act = lambda: services.edit_comment(said, user=user, text=text)
    return _said(request, found, act, edits=said.pk, text=text)


def _comment(found: Prediction, comment_id: int) -> Comment:
    return get_object_or_404(Comment, pk=comment_id, prediction=found)


def _said(request: HttpRequest, found: Prediction, service: Callable[[], Any], **kept: Any) -> HttpResponse:
    """The comments anew: the region for htmx, the page otherwise."""
    problem: Context = {}
    try:
        service()
    except ServiceError as error:
        problem = {"field": error.field, "text_problem": error.message, **kept}
    status = 422 if problem else 200
    if not wants_fragment(request):
        if problem:
            return _page(request, found, status=status, problem=problem)
        return redirect(f"{reverse('prediction', args=[found.pk])}#talk")
    context = _context(request, found) | {"problem": problem}
    return render(request, "predictions/_talk.html", context, status=status)


def forecast_record(request: HttpRequest) -> HttpResponse:
    """The record of all runs, or of a task or a recipe."""
    project = current_project(request)
    asked = {name: request.GET.get(name, "") for name in ("task", "recipe")}
    found = record(project, **asked)
    tasks, recipes = keeping.choices_of(project)
    context: dict[str, Any] = {
        "asked": asked,
        "tasks": tasks,
        "recipes": recipes,
        "found": found,
        "headline": told.headline(found),
        "recalibration": told.recalibration(found),
        "provenance": told.provenance(found),
        "apart": told.apart(found),
        "figure": told.figure(found),
        "methods": told.method_cells(found.methods),
        "levels": told.level_cells(found),
        "kinds": [
            (kind, title, cells)
            for kind, title in GROUPS_OF_RECORD.items()
            if (cells := told.group_cells(found, kind))
        ],
        "may_switch": Permission.ADMIN in granted(request),
    }
    return render(request, "predictions/record.html", context)


def switch(request: HttpRequest) -> HttpResponse:
    """Recalibrate the project's intervals, or no more."""
    project, is_on = current_project(request), request.POST.get("on") == "1"
    if keeping.switch_recalibration(project, is_on=is_on, actor=signed_in(request)):
        messages.success(
            request, "Intervals are recalibrated." if is_on else "Intervals are shown as they are forecast."
        )
    return redirect("forecast-record")
