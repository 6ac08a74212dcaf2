"""Recipes, their revisions, and the next revision.

The list of recipes: newest revision, use, and the forecast ceiling of the newest tried revision. Few queries.
"""

from itertools import pairwise
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from training.hints import Hint
from webapp.base.errors import InvalidInput
from webapp.base.formats import Unreadable, load_yaml
from webapp.identity.accounts.models import Project
from webapp.interfaces.pages import configuration
from webapp.interfaces.pages.access import current_project, get_recipe, signed_in
from webapp.interfaces.pages.answers import page_or_fragment
from webapp.interfaces.pages.forms import RevisionForm
from webapp.interfaces.pages.launching.fields import grouped, size_of
from webapp.interfaces.pages.marks import shared_scale
from webapp.interfaces.pages.overview import seeds_words
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.recipes.selectors import hints_for, recipes_of, revisions_of
from webapp.record.recipes.services import add_revision
from webapp.record.runs.models import Run
from webapp.science.curves.ranking.leaderboard import leaderboard

Payload = dict[str, Any]


def entries(project: Project, *, q: str = "") -> list[tuple[str, list[Payload]]]:
    """(group, recipes) whose name, slug or description holds every word of `q`; the best evidence first."""
    evidence = evidence_by_recipe(project)
    words = q.lower().split()
    found = [
        recipe
        for recipe in recipes_of(project)
        if all(word in f"{recipe.name} {recipe.slug} {recipe.description}".lower() for word in words)
    ]
    return [
        (title, sorted((_entry(family, evidence) for family in families), key=_evidence_first))
        for title, families in grouped(found, lambda recipe: recipe.slug)
    ]


def _entry(family: list[Any], evidence: dict[str, Payload]) -> Payload:
    """A recipe in its sizes, the small one first, with its best evidence: of the newest revision that has a fit, the
    task with the most seeds. `recipe`: the largest size, whose name and description speak for all."""
    known = [evidence[recipe.slug] for recipe in family if recipe.slug in evidence]
    return {
        "recipes": family,
        "recipe": family[-1],
        "sizes": [(size_of(recipe.slug), recipe) for recipe in family],
        "num_runs": sum(recipe.run_count for recipe in family),
        "changed_at": max((recipe.latest_at for recipe in family if recipe.latest_at), default=None),
        "evidence": max(known, key=lambda row: row["seeds"], default=None),
    }


def _evidence_first(entry: Payload) -> tuple[int, int]:
    return -(entry["evidence"]["seeds"] if entry["evidence"] else 0), -entry["num_runs"]


def evidence_by_recipe(project: Project) -> dict[str, Payload]:
    """Slug -> the forecast ceiling of its newest revision with a fit, on the task with most seeds, and on how many
    others."""
    rows: dict[str, list[Payload]] = {}
    for group in leaderboard(project, published=False):
        for row in group["rows"]:
            if row["recipe_slug"]:
                rows.setdefault(row["recipe_slug"], []).append(
                    row | {"task": group["task"], "model": group["model"]}
                )
    return {slug: _best(found) for slug, found in rows.items()}


def _best(rows: list[Payload]) -> Payload:
    newest = max(row["revision"] for row in rows)
    of_newest = sorted((row for row in rows if row["revision"] == newest), key=lambda row: -row["seeds"])
    return of_newest[0] | {"others": len(of_newest) - 1, **_shown(of_newest[0])}


def _shown(row: Payload) -> Payload:
    return {"ceiling": row["forecast_ceiling"], "seeds_text": seeds_words(row)}


def evidence_of(recipe: Recipe) -> list[Payload]:
    """Every revision of one recipe that has a fit, on each task and model, newest revision first, on one scale."""
    rows = [
        row | {"task": group["task"], "model": group["model"], "scale": tuple(group["scale"])} | _shown(row)
        for group in leaderboard(recipe.project, published=False)
        for row in group["rows"]
        if row["recipe_slug"] == recipe.slug
    ]
    return sorted(rows, key=lambda row: (-row["revision"], row["task"], row["model"]))


RUNS_SHOWN = 10


def recipes(request: HttpRequest) -> HttpResponse:
    """All recipes of the project in their groups; asked by htmx (search), the table alone."""
    q = request.GET.get("q", "").strip()
    groups = entries(current_project(request), q=q)
    ceilings = [entry["evidence"]["ceiling"] for _, found in groups for entry in found if entry["evidence"]]
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
        "evidence": evidence_of(found),
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
    if request.method == "POST" and form.is_valid() and (revision := _try_add(request, form, found)):
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
