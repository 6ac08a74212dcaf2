"""Recipes, their revisions, and the next revision."""

from itertools import pairwise
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from training.hints import Hint
from webapp.base.errors import InvalidInput
from webapp.base.plain_yaml import Unreadable, load_yaml
from webapp.interfaces.pages import configuration, recipes_list
from webapp.interfaces.pages.access import current_project, get_recipe, signed_in
from webapp.interfaces.pages.answers import page_or_fragment
from webapp.interfaces.pages.forms import RevisionForm
from webapp.interfaces.pages.marks import shared_scale
from webapp.record.recipes.models import Revision
from webapp.record.recipes.selectors import hints_for, revisions_of
from webapp.record.recipes.services import add_revision
from webapp.record.runs.models import Run

RUNS_SHOWN = 10


def recipes(request: HttpRequest) -> HttpResponse:
    """All recipes of the project in their groups; asked by htmx (search), the table alone."""
    q = request.GET.get("q", "").strip()
    groups = recipes_list.entries(current_project(request), q=q)
    ceilings = [entry.evidence["ceiling"] for _, found in groups for entry in found if entry.evidence]
    context = {"groups": groups, "scale": shared_scale(ceilings), "has_ceilings": bool(ceilings), "q": q}
    return page_or_fragment(request, "recipes/list.html", "recipes/_table.html", context)


def recipe(request: HttpRequest, slug: str) -> HttpResponse:
    """A recipe: its newest configuration, and its revisions with what each changed and its newest runs."""
    found = get_recipe(request, slug)
    revisions = list(revisions_of(found))
    newest = revisions[0] if revisions else None
    context = {
        "recipe": found,
        "newest": newest,
        "facts": configuration.key_settings(newest.config) if newest else [],
        "sections": configuration.sections(newest.config) if newest else [],
        "yaml": configuration.as_yaml(newest.config) if newest else "",
        "history": _history(revisions),
        "hints": hints_for(newest.config) if newest else [],
        "evidence": recipes_list.evidence_of(found),
    }
    return render(request, "recipes/recipe.html", context)


def _history(revisions: list[Revision]) -> list[dict[str, Any]]:
    """Newest first: each revision, what it changed, and its newest runs (one query for all)."""
    runs: dict[int | None, list[Run]] = {}
    for run in Run.objects.filter(revision__in=revisions).defer("config").order_by("-created_at"):
        runs.setdefault(run.revision_id, []).append(run)
    changes = {new.pk: configuration.differences(old.config, new.config) for new, old in pairwise(revisions)}
    return [
        {
            "revision": revision,
            "changes": changes.get(revision.pk),
            "runs": runs.get(revision.pk, [])[:RUNS_SHOWN],
            "more": max(0, len(runs.get(revision.pk, [])) - RUNS_SHOWN),
        }
        for revision in revisions
    ]


def new_revision(request: HttpRequest, slug: str) -> HttpResponse:
    """The next revision, starting from the newest; a wrong setting is named beside the text."""
    found = get_recipe(request, slug)
    newest = revisions_of(found).first()
    start = {"config": configuration.as_yaml(newest.config)} if newest else {}
    form = RevisionForm(request.POST or None, slug=found.slug, initial=start)
    if request.method == "POST" and form.is_valid():
        revision = _try_add(request, form, found)
        if revision:
            return redirect(f"{reverse('recipe', args=[found.slug])}#rev-{revision.number}")
    status = 422 if form.is_bound else 200
    hints = _hints_of_text(form["config"].value() or "")
    context = {"recipe": found, "newest": newest, "form": form, "hints": hints}
    return render(request, "recipes/new.html", context, status=status)


def revision_hints(request: HttpRequest, slug: str) -> HttpResponse:
    """Hints on the text that is being written; nothing is stored."""
    get_recipe(request, slug)
    return render(request, "recipes/_hints.html", {"hints": _hints_of_text(request.POST.get("config", ""))})


def _hints_of_text(text: str) -> list[Hint]:
    try:
        return hints_for(parse_yaml(text))
    except InvalidInput:  # said when it is sent
        return []


def _try_add(request: HttpRequest, form: RevisionForm, found: Any) -> Revision | None:
    """The stored revision, or None with the reason in the form."""
    try:
        config = parse_yaml(form.cleaned_data["config"])
        revision, is_new = add_revision(
            recipe=found, config=config, message=form.cleaned_data["message"], user=signed_in(request)
        )
    except InvalidInput as error:
        form.add_error("config", error.message)
        return None
    said = "Stored as rev {0}." if is_new else "Nothing new: this is what rev {0} says already."
    messages.info(request, said.format(revision.number))
    return revision


def parse_yaml(text: str) -> dict[str, Any]:
    """A mapping out of YAML or JSON. Raises InvalidInput with the line at fault."""
    try:
        data = load_yaml(text)
    except Unreadable as error:
        raise InvalidInput("config", f"The configuration {error}.") from None
    if not isinstance(data, dict):
        raise InvalidInput("config", "A configuration is a mapping of settings.")
    return data
