"""What the command palette finds: runs, recipes and studies of one project by name, the newest first.

One query a kind. The rows are read in the order of their index and the reading stops at enough hits, so that 10,000
runs cost milliseconds; nothing is read of a run but what is shown.
"""

from typing import Any

from django.apps import apps
from django.db.models import Q, QuerySet
from django.db.models.functions import Length
from django.urls import NoReverseMatch, reverse

from webapp.identity.accounts.models import Project
from webapp.interfaces.tracking.selectors import CLIENT_KEY
from webapp.record.recipes.models import Recipe
from webapp.record.runs.models import Run

MOST = {"Run": 12, "Recipe": 5, "Study": 3}
LONGEST = 200  # characters of a question that are looked at
Hit = dict[str, str]


def search(project: Project, text: str) -> list[Hit]:
    """At most 20 hits as {"kind", "label", "hint", "url"}; every word has to be in the name. Three queries at most.

    Without words the newest of each kind.
    """
    words = text[:LONGEST].split()
    return [*_runs(project, words), *_recipes(project, words), *_studies(project, words)]


def _with_words(rows: QuerySet[Any], words: list[str], *lookups: str) -> QuerySet[Any]:
    """Rows that each word fits by one of the lookups."""
    for word in words:
        fits = Q()
        for lookup in lookups:
            fits |= Q(**{lookup: word})
        rows = rows.filter(fits)
    return rows


def _runs(project: Project, words: list[str]) -> list[Hit]:
    lookups: tuple[str, ...] = ("name__icontains", "pk__istartswith", "task__icontains", "model__icontains")
    if len(words) == 1 and CLIENT_KEY.fullmatch(words[0]):
        lookups = ("client_run__key",)
    found = _with_words(Run.objects.filter(project=project), words, *lookups)
    rows = found.order_by("-created_at", "id").values_list("pk", "name", "task", "model", "seed", "state")
    return [
        _hit("Run", name, f"{task}, {model}, seed {seed}, {state}", reverse("run", args=[pk]))
        for pk, name, task, model, seed, state in rows[: MOST["Run"]]
    ]


def _recipes(project: Project, words: list[str]) -> list[Hit]:
    found = _with_words(Recipe.objects.filter(project=project), words, "name__icontains", "slug__icontains")
    order = [Length("name"), "slug"] if words else ["-created_at", "slug"]  # the name that says least besides
    rows = found.order_by(*order).values_list("slug", "name")
    return [
        _hit("Recipe", name, slug, reverse("recipe", args=[slug])) for slug, name in rows[: MOST["Recipe"]]
    ]


def _studies(project: Project, words: list[str]) -> list[Hit]:
    """Studies, in an installation that has them."""
    if not apps.is_installed("webapp.science.studies"):
        return []
    model = apps.get_app_config("studies").get_model("Study")
    studies = model._default_manager.filter(project=project)
    found = _with_words(studies, words, "name__icontains").order_by("-created_at")[: MOST["Study"]]
    try:
        return [_hit("Study", study.name, "", reverse("study", args=[study.pk])) for study in found]
    except NoReverseMatch:
        return []


def _hit(kind: str, label: str, hint: str, url: str) -> Hit:
    return {"kind": kind, "label": label, "hint": hint, "url": url}
