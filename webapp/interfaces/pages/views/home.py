"""What every page uses: the search of the command palette, and a sign of life.

/api/docs: what the API takes and gives, for people. It is open to everybody, as the document that it shows is.

How the installation is: what is wrong in words, and the figures behind it.

The first page: what runs, identified ceilings, alarms, waits and ended. Asked by htmx, only the parts that changed.

What the command palette finds: runs, recipes and studies of one project by name, the newest first.

One query a kind. The rows are read in the order of their index and the reading stops at enough hits, so that 10,000
runs cost milliseconds; nothing is read of a run but what is shown.
"""

from functools import cache
from hashlib import sha256
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache

from webapp.identity.accounts.models import Project
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.api.api import api
from webapp.interfaces.pages.access import current_project, granted, signed_in
from webapp.interfaces.pages.answers import page_or_fragment, wants_fragment
from webapp.interfaces.pages.api_docs import groups_of, shapes_of
from webapp.interfaces.pages.launching.preview import cluster_now
from webapp.interfaces.pages.middleware import may_of
from webapp.interfaces.pages.overview import MOST, PARTS, queued
from webapp.interfaces.pages.overview import overview as overview_of
from webapp.interfaces.pages.prediction.listing import named
from webapp.interfaces.tracking.selectors import CLIENT_KEY
from webapp.record.recipes.models import Recipe
from webapp.record.runs.models import Run
from webapp.reporting.status import status_now
from webapp.reporting.troubles import status_payload
from webapp.science.predictions.selectors import awaiting_review
from webapp.science.studies.models import Study

MOST_FOUND = {"Run": 12, "Recipe": 5, "Study": 3}
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
        for pk, name, task, model, seed, state in rows[: MOST_FOUND["Run"]]
    ]


def _recipes(project: Project, words: list[str]) -> list[Hit]:
    found = _with_words(Recipe.objects.filter(project=project), words, "name__icontains", "slug__icontains")
    order = [Length("name"), "slug"] if words else ["-created_at", "slug"]  # the name that says least besides
    rows = found.order_by(*order).values_list("slug", "name")
    return [
        _hit("Recipe", name, slug, reverse("recipe", args=[slug]))
        for slug, name in rows[: MOST_FOUND["Recipe"]]
    ]


def _studies(project: Project, words: list[str]) -> list[Hit]:
    found = _with_words(Study.objects.filter(project=project), words, "name__icontains")
    newest = found.order_by("-created_at")[: MOST_FOUND["Study"]]
    return [_hit("Study", study.name, "", reverse("study", args=[study.pk])) for study in newest]


def _hit(kind: str, label: str, hint: str, url: str) -> Hit:
    return {"kind": kind, "label": label, "hint": hint, "url": url}


DIGEST_CHARACTERS = 8


@never_cache
def palette(request: HttpRequest) -> JsonResponse:
    """{"items": [{"kind", "label", "hint", "url"}]}: what the current project has under these words."""
    return JsonResponse({"items": search(current_project(request), request.GET.get("q", ""))})


@never_cache
def alive(request: HttpRequest) -> HttpResponse:
    """204: the server answers and the reader is signed in; a script gets 401 where that ended."""
    return HttpResponse(status=204)


def page(request: HttpRequest) -> HttpResponse:
    """Drawn on the server from the OpenAPI document; nothing on it depends on who looks."""
    return render(request, "docs/api.html", _content())


@cache
def _content() -> dict[str, Any]:
    document = api.get_openapi_schema()
    return {"groups": groups_of(document), "shapes": shapes_of(document)}


@never_cache
def status(request: HttpRequest) -> HttpResponse:
    """The page; to htmx, every few seconds, what changes on it. Names of machines are for admins."""
    project = current_project(request)
    is_admin = Permission.ADMIN in granted(request)
    context = {"status": status_payload(status_now(), is_admin=is_admin), "is_admin": is_admin}
    context |= queued(project)
    return page_or_fragment(request, "status/page.html", "status/_status.html", context)


def overview(request: HttpRequest) -> HttpResponse:
    """The page; for htmx the parts whose digest is not in `seen`, or 204 where there are none.

    The worker is asked by the fragment alone: the page does not wait for it, and says what was noted down of it, so
    that nothing moves when the fragment comes.
    """
    project = current_project(request)
    said = overview_of(project)
    reviews = list(named(awaiting_review(signed_in(request), project))[: MOST + 1])
    said |= {"reviews": reviews[:MOST], "more_reviews": len(reviews) > MOST}
    is_fragment = wants_fragment(request)
    said["may"] = may_of(request)
    said["troubles"] = cluster_now(asks_worker=is_fragment).troubles
    parts = {name: _part(name, said) for name in ("health", *PARTS)}
    digests = {
        name: sha256((name + html).encode()).hexdigest()[:DIGEST_CHARACTERS] for name, html in parts.items()
    }
    context: dict[str, Any] = said | {"parts": parts, "seen": ",".join(digests.values())}
    if not is_fragment:
        response = render(request, "overview.html", context)
    else:
        seen = request.GET.get("seen", "").split(",")
        changed = {name: html for name, html in parts.items() if digests[name] not in seen}
        response = HttpResponse(status=204)
        if changed:
            response = render(request, "overview/_changed.html", context | {"changed": changed})
    patch_vary_headers(response, ["HX-Request", "HX-History-Restore-Request"])
    return response


def _part(name: str, said: dict[str, Any]) -> SafeString:
    """A part's HTML; nothing at all, not even a line's end, where it has nothing to say: its place is then closed."""
    return SafeString(render_to_string(f"overview/_{name}.html", said).strip())  # nosec B703  # a template escapes
