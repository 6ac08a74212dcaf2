"""How good forecasts were: every run forecast as it went, judged by how it ended, beside simpler methods."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.pages.access import current_project, granted, signed_in
from webapp.interfaces.pages.prediction import record as said
from webapp.science.curves.record import keeping
from webapp.science.curves.record.reading import record

KINDS = {"share": "how far was forecast", "task": "task", "recipe": "recipe"}


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
        "headline": said.headline(found),
        "recalibration": said.recalibration(found),
        "provenance": said.provenance(found),
        "apart": said.apart(found),
        "figure": said.figure(found),
        "methods": said.method_cells(found.methods),
        "levels": said.level_cells(found),
        "kinds": [
            (kind, title, cells) for kind, title in KINDS.items() if (cells := said.group_cells(found, kind))
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
