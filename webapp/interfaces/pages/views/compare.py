"""Runs, recipes and published curves side by side. All of the choice is in the URL."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import prefetch_related_objects
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from webapp.base.errors import REFUSED, Conflict
from webapp.base.formats import NoAmount, amount_in, whole_in
from webapp.interfaces.pages.access import current_project, signed_in
from webapp.interfaces.pages.answers import telling
from webapp.interfaces.pages.configuration import config_table
from webapp.interfaces.pages.marks import tie_stripes
from webapp.interfaces.pages.panels import FIELDS, panels_context, panels_payload
from webapp.interfaces.pages.settings_plot import CEILING, settings_plot
from webapp.record.recipes.selectors import revisions_with_runs
from webapp.record.runs.bounds import label_of
from webapp.record.runs.panels import metrics_of, newest_of
from webapp.record.runs.selectors import RunFilters, runs_of
from webapp.record.savedviews.models import SavedView
from webapp.record.savedviews.selectors import layouts_of
from webapp.record.savedviews.services import create_layout, delete_view
from webapp.science.curves.comparison import odds
from webapp.science.curves.comparison.compare import entries_of, payload_of
from webapp.science.curves.comparison.drawing import VIEWS as KNOWN_VIEWS
from webapp.science.curves.comparison.entries import BY, MOST_RUNS, Choice, Entry, choose
from webapp.science.curves.comparison.panels import MOST_NAMES
from webapp.science.curves.models import ReferenceFit
from webapp.science.curves.words import AXES, DEFAULT_AXIS

TABS = {"curves": "Curves", "metrics": "Metrics", "settings": "Settings"}
VIEWS = dict(zip(KNOWN_VIEWS, ("Pass rate", "Share of the gain", "Slope"), strict=True))
CHIPS_UP_TO = 8
FOUND_RUNS, FOUND_RECIPES, FOUND_CURVES = 12, 6, 4
LONGEST_SEARCH = 200
MOST_COMPUTE = 1e30  # of a budget, in any unit
LAYOUT = ("m", "x", "by", "cols", "smooth")  # of the query: what a saved layout has


def compare(request: HttpRequest) -> HttpResponse:
    """Overlay, table and sentences for `run`, `recipe` and `ref` of the query; without any, how to choose."""
    current_project(request)
    if "drop" in request.GET:
        return redirect(f"{reverse('compare')}?{_without(request.GET, request.GET['drop']).urlencode()}")
    choice, asked = _choice(request), _asked(request)
    shell: dict[str, Any] = {
        "choice": choice,
        "chips": _chips(request, choice),
        "many_chips": len(request.GET.getlist("run")) > CHIPS_UP_TO,
        "most_runs": MOST_RUNS,
        "kept": _kept(request, asked),
        "tab": request.GET.get("tab") if request.GET.get("tab") in TABS else "curves",
        "axes": AXES,
    }
    if shell["tab"] == "metrics":
        panels = panels_context(request.GET, reverse("compare-panels"))
        shell |= {"panels": panels, "by": asked["by"], "choices": BY, "layouts": _layouts(request)}
        return render(request, "compare_metrics.html", shell)
    if shell["tab"] == "settings":
        return render(request, "compare_settings.html", shell | _settings(request, choice, asked["x"]))
    entries = entries_of(choice.runs, choice.references, x=asked["x"], by=asked["by"])
    payload = payload_of(entries, **asked)
    budget, problem = read_budget(request)
    context = shell | {
        "payload": payload,
        "drawing": _drawing(payload),
        "table": tie_stripes(payload["table"]),
        "config": config_table(entries),
        "views": VIEWS,
        "by": BY,
        "problem": problem,
    }
    return render(request, "compare.html", context | _odds(entries, asked["x"], budget))


def _layouts(request: HttpRequest) -> list[tuple[SavedView, str, bool]]:
    """(saved layout, the address that shows the chosen runs in it, whether they are shown so). One query."""
    rest = {name: request.GET.getlist(name) for name in request.GET if name not in (*LAYOUT, *FIELDS, "hide")}
    now = layout_of(request.GET)
    return [
        (one, urlencode(rest, doseq=True) + f"&{one.layout}", one.layout == now)
        for one in layouts_of(signed_in(request), current_project(request))
    ]


def layout_of(query: QueryDict) -> str:
    """The part of the query that says which panels there are and how they are drawn."""
    return urlencode([(name, value) for name in LAYOUT if (value := query.get(name))])


def save_layout(request: HttpRequest) -> HttpResponse:
    """Keep the layout of the panels under a name."""
    back = QueryDict(request.POST.get("back", ""))
    with telling(request, REFUSED):
        layout = create_layout(
            user=signed_in(request), project=current_project(request), name=request.POST.get("name", ""),
            layout=layout_of(back), shared="shared" in request.POST,
        )  # fmt: skip
        messages.info(request, f"Saved the layout “{layout}”.")
    return redirect(f"{reverse('compare')}?{back.urlencode()}")


def delete_layout(request: HttpRequest, view_id: int) -> HttpResponse:
    """Delete a saved layout of the user's."""
    user, project = signed_in(request), current_project(request)
    layout = get_object_or_404(SavedView, pk=view_id, owner=user, project=project)
    with telling(request, Conflict):
        delete_view(
            layout.pk, user=user, project=project, version=whole_in(request.POST.get("version", "")) or 0
        )
        messages.info(request, f"Deleted the layout “{layout}”.")
    return redirect(f"{reverse('compare')}?{QueryDict(request.POST.get('back', '')).urlencode()}")


def _settings(request: HttpRequest, choice: Choice, x: str) -> dict[str, Any]:
    """Settings that differ against what came, of each run. sx, sy of the query: the columns of the scatter plot, each a
    setting, an outcome, or a metric of which the newest value is meant."""
    if not choice.runs:
        return {}
    prefetch_related_objects(choice.runs, "summary")
    entries = entries_of(choice.runs, (), x=x)
    across, up = request.GET.get("sx", ""), request.GET.get("sy", "")
    ids = [run.pk for run in choice.runs]
    names = metrics_of(ids)
    asked = [name for name in dict.fromkeys((across, up)) if name in names]
    newest = newest_of(ids, asked) if asked else {}
    plot = settings_plot(
        entries, x, {name: [newest.get((pk, name), (0, None))[1] for pk in ids] for name in asked}
    )
    columns, outcomes = [c.key for c in plot.columns], [c.key for c in plot.outcomes]
    default = columns[0] if plot.settings else "hours"
    return {
        "plot": plot,
        "metrics": [name for name in names if name not in asked][:MOST_NAMES],
        "rows": [(entry, [column.cell(i) for column in plot.columns]) for i, entry in enumerate(entries)],
        "drawn": {"columns": plot.payload, "runs": [{"id": e.key, "label": e.label} for e in entries]},
        "x": x,
        "sx": across if across in columns else default,
        "sy": up if up in outcomes else (CEILING if CEILING in outcomes else next(iter(outcomes), "")),
        "several": len({entry.rivals for entry in entries}) > 1,
    }


def compare_panels(request: HttpRequest) -> JsonResponse:
    """The panels of the chosen runs: what the page of any metrics draws."""
    runs = _choice(request).runs
    return JsonResponse(panels_payload(runs, request.GET, by=_asked(request)["by"]))


def compare_odds(request: HttpRequest) -> HttpResponse:
    """The part of the page that a budget changes."""
    budget, problem = read_budget(request)
    context = _odds(_entries(request), _asked(request)["x"], budget)
    return render(request, "compare/_odds.html", context | {"problem": problem})


def compare_crossings(request: HttpRequest) -> HttpResponse:
    """Where the forecasts cross: asked for once the page is there, because they are compared at many computes."""
    found = odds.crossings(_entries(request), _asked(request)["x"])
    return render(request, "compare/_crossings.html", {"crossings": found})


def _entries(request: HttpRequest) -> list[Entry]:
    choice, asked = _choice(request), _asked(request)
    return entries_of(choice.runs, choice.references, x=asked["x"], by=asked["by"])


def compare_search(request: HttpRequest) -> HttpResponse:
    """Runs, recipes and published curves that match `q`, each with the address that adds it to the choice."""
    project = current_project(request)
    text = request.GET.get("q", "").strip()[:LONGEST_SEARCH]
    matching = runs_of(project, RunFilters(q=text))
    total = matching.count()
    runs = list(matching[:FOUND_RUNS])
    chosen = {name: set(request.GET.getlist(name)) for name in ("run", "recipe", "ref")}
    context = {
        "q": text,
        "runs": [(run, _with(request.GET, "run", run.pk), run.pk in chosen["run"]) for run in runs],
        "total": total,
        "all_url": _all_url(request.GET, matching, total) if text else "",
        "recipes": [
            (found, _with(request.GET, "recipe", token), token in chosen["recipe"])
            for found in revisions_with_runs(project, text)[:FOUND_RECIPES]
            for token in [f"{found.recipe.slug}@{found.number}"]
        ],
        "published": [
            (one, _with(request.GET, "ref", one.slug), one.slug in chosen["ref"])
            for one in ReferenceFit.objects.all()
            if text.lower() in f"{one.name} published".lower()
        ][:FOUND_CURVES],
    }
    return render(request, "compare/_found.html", context)


def _all_url(query: QueryDict, matching: Any, total: int) -> str:
    """The address that adds every run that matches; empty where they are too many."""
    room = MOST_RUNS - len(query.getlist("run"))
    if not 1 < total <= room:
        return ""
    return _with(query, "run", *matching.values_list("pk", flat=True))


def _drawing(payload: dict[str, Any]) -> dict[str, Any]:
    """What the chart draws of the payload; the rest stands in the page as words. places: colour and shape of each."""
    drawn = {name: payload[name] for name in ("x", "y_label", "view", "many", "mixed", "series")}
    return drawn | {"places": {row["id"]: row["series"] for row in payload["table"]}}


def _choice(request: HttpRequest) -> Choice:
    get = request.GET.getlist
    return choose(current_project(request), runs=get("run"), recipes=get("recipe"), references=get("ref"))


def _asked(request: HttpRequest) -> dict[str, str]:
    """x, view and by of the query, each one that exists. Whoever asks for recipes sees recipes."""
    x, view, by = (request.GET.get(name, "") for name in ("x", "view", "by"))
    default = "recipe" if request.GET.getlist("recipe") else "run"
    return {
        "x": x if x in AXES else DEFAULT_AXIS,
        "view": view if view in VIEWS else "rate",
        "by": by if by in BY else default,
    }


def _kept(request: HttpRequest, asked: dict[str, str]) -> list[tuple[str, str]]:
    """What the form of the choice sends along besides the choice."""
    said = [(name, asked[name]) for name in ("view", "by") if request.GET.get(name)]
    as_they_are = ("scale", "hide", "tab", "sx", "sy", *FIELDS)
    return said + [(name, value) for name in as_they_are for value in request.GET.getlist(name) if value]


def _odds(entries: list[Entry], x: str, budget: float | None) -> dict[str, Any]:
    asked = budget if budget is not None else odds.default_budget(entries)
    if asked is None:
        return {"odds": None, "stops": []}
    shown = odds.at_budget(entries, asked, x)
    if budget is None:  # the sentences above say the same
        shown["sentence"] = ""
    return {"odds": shown, "stops": odds.budget_stops(entries)}


def read_budget(request: HttpRequest) -> tuple[float | None, str]:
    """The budget of the query in units of its axis, or None and what is wrong with it."""
    text = request.GET.get("budget", "").strip()
    if not text:
        return None, ""
    try:
        return amount_in(text, most=MOST_COMPUTE), ""
    except NoAmount:
        x = request.GET.get("x", "")
        axis = AXES[x if x in AXES else DEFAULT_AXIS]
        return (
            None,
            f"Budget “{text[:40]}”: a number above 0 is needed, in {axis.label.replace('D', 'd', 1)}.",
        )


def _chips(request: HttpRequest, choice: Choice) -> list[dict[str, str]]:
    """What is chosen, as it stands in the query: name and value of its field, and its label."""
    by_id = {run.pk: run for run in choice.runs}
    wanted = [pk for pk in dict.fromkeys(request.GET.getlist("run")) if pk in by_id]
    chips = [{"name": "run", "value": pk, "label": label_of(by_id[pk]), "note": ""} for pk in wanted]
    here = {
        f"{run.revision.recipe.slug}@{run.revision.number}": str(run.revision)
        for run in choice.runs
        if run.revision
    }
    chips += [
        {"name": "recipe", "value": token, "label": here[token], "note": "all runs"}
        for token in dict.fromkeys(request.GET.getlist("recipe"))
        if token in here
    ]
    published = [
        {"name": "ref", "value": one.slug, "label": one.name, "note": "published"}
        for one in choice.references
    ]
    return chips + published


def _with(query: QueryDict, name: str, *values: str) -> str:
    """The address of the page with more chosen."""
    changed = query.copy()
    for dropped in ("q", "drop"):
        changed.pop(dropped, None)
    changed.setlist(name, list(dict.fromkeys([*changed.getlist(name), *values])))
    return f"{reverse('compare')}?{changed.urlencode()}"


def _without(query: QueryDict, value: str) -> QueryDict:
    changed = query.copy()
    del changed["drop"]
    changed.pop("q", None)
    for name in ("run", "recipe", "ref"):
        left = [one for one in changed.getlist(name) if one and one != value]
        changed.setlist(name, left)
    return changed
