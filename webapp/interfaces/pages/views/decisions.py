"""The decision log of a project, and adding to it."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from webapp.interfaces.pages.access import current_project, get_in_projects, signed_in
from webapp.interfaces.pages.forms import DecisionForm, address_of
from webapp.science.decisions import selectors
from webapp.science.decisions.models import About, DecisionKind
from webapp.science.decisions.services import decide

PAGE_SIZE = 30
CHOICES = {"kind": DecisionKind.choices, "about": About.choices}


def decisions(request: HttpRequest) -> HttpResponse:
    """The log, newest first, filtered by person, kind and object."""
    project = current_project(request)
    asked = {name: request.GET.get(name, "") for name in ("person", "kind", "about", "object_id")}
    for name, choices in CHOICES.items():
        asked[name] = asked[name] if asked[name] in dict(choices) else ""
    page = Paginator(selectors.decisions_of(project, **asked), PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"page": page, "asked": asked, "filtered": any(asked.values()), "choices": CHOICES}
    return render(request, "decisions/list.html", context | {"people": selectors.people_of(project)})


def new_decision(request: HttpRequest) -> HttpResponse:
    """Store what the form says, and go back to the page of its object; what is wrong stands beside its field."""
    about, object_id = request.POST.get("about", ""), request.POST.get("object_id", "")
    found = get_in_projects(request, lambda project: selectors.object_of(project, about, object_id))
    form = DecisionForm(request.POST)
    if form.is_valid():
        with form.refusing():
            entry = decide(found, user=signed_in(request), **form.asked())
            messages.info(request, "The decision is in the log.")
            return redirect(address_of(entry))
    return render(request, "decisions/new.html", {"decision_form": form}, status=422)


def decision(request: HttpRequest, decision_id: str) -> HttpResponse:
    """Where one entry stands in the log: among those of its object."""
    entry = selectors.decision_by_id(current_project(request), decision_id)
    return redirect(f"{reverse('decisions')}?object_id={entry.object_id}#decision-{entry.pk}")
