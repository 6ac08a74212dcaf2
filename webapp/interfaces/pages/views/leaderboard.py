"""Recipes ranked, per task and model."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import slugify

from webapp.base.formats import csv_file
from webapp.interfaces.api.paging import leaderboard_rows
from webapp.interfaces.pages.access import current_project
from webapp.interfaces.pages.marks import tie_stripes
from webapp.interfaces.pages.views.compare import read_budget
from webapp.science.curves.ranking.leaderboard import (
    MOST_RUNS,
    SORTS,
    in_order,
    left_out,
    tasks_and_models,
    unranked,
)
from webapp.science.curves.ranking.leaderboard import leaderboard as ranked_groups
from webapp.science.curves.ranking.variation import efficiencies
from webapp.science.curves.words import AXES, DEFAULT_AXIS

SCREENFUL = 10  # recipes; the tasks and models after the one that fills it come as the reader gets there
CSV_COLUMNS = (
    "task", "model", "rank", "tied", "recipe", "revision", "published", "source", "identified",
    "A", "lo", "hi", "B", "B_lo", "B_hi", "c90", "c90_lo", "c90_hi", "compared_at", "at_budget", "at_budget_lo",
    "at_budget_hi", "at_budget_chance", "forecast", "forecast_lo", "forecast_hi", "forecast_chance", "forecast_rank",
    "not_compared", "seeds", "identified_seeds", "evidence", "unit", "runs",
)  # fmt: skip
SORT_TITLES = {"": "rank", "ceiling": "forecast ceiling", "a": "A of Eq. 1", "b": "B", "c90": "compute to 90 %",
               "seeds": "seeds", "evidence": "evidence"}  # fmt: skip


def leaderboard(request: HttpRequest) -> HttpResponse:
    """The tables; a budget that cannot be read is said beside its field and left out."""
    asked, problem = _asked(request)
    project, sort = current_project(request), _sort(request)
    known = tasks_and_models(project)
    wanted = [pair for pair in known if asked["task"] in ("", pair[0]) and asked["model"] in ("", pair[1])]
    at_once = _at_once([known[pair] for pair in wanted])
    groups = ranked_groups(project, **asked, pairs=wanted[:at_once])
    context = {
        "groups": [_shown(group, sort) for group in groups],
        "most_runs": MOST_RUNS,
        "left_out": left_out(project, wanted[:at_once]),
        "unranked": unranked(project, asked["task"], asked["model"]),
        "later_groups": [_later(request, *pair) for pair in wanted[at_once:]],
        "show_published": asked["published"],
        "has_own": any(not group["published"] for group in groups),
        "any_own": bool(known),
        "source": next((row["source"] for group in groups for row in group["rows"] if row["published"]), ""),
        "budget": asked["budget"],
        "axis": AXES[asked["x"]],
        "axes": AXES,
        "problem": problem,
        "sort": sort,
        "sort_title": SORT_TITLES[sort],
        "tasks": sorted({task for task, _ in known}),
        "models": sorted({model for _, model in known}),
        "task": asked["task"],
        "model": asked["model"],
    }
    return render(request, "leaderboard.html", context)


def _at_once(recipes: Sequence[int]) -> int:
    """How many groups fill a screen, from the number of recipes of each."""
    return sum(before < SCREENFUL for before in accumulate(recipes[:-1], initial=0))


def leaderboard_group(request: HttpRequest) -> HttpResponse:
    """The table of one task and model: of many, a page shows the first at once and the others as one gets there."""
    asked, _ = _asked(request)
    pair, sort = (asked["task"], asked["model"]), _sort(request)
    groups = ranked_groups(current_project(request), **(asked | {"published": False}), pairs=[pair])
    if not groups:
        raise Http404("no fitted run on this task and model")
    number = f"{slugify(pair[0])}-{slugify(pair[1])}"
    context = {
        "group": _shown(groups[0], sort), "number": number, "budget": asked["budget"], "axis": AXES[asked["x"]],
        "sort": sort,
    }  # fmt: skip
    return render(request, "leaderboard/_group.html", context)


def _sort(request: HttpRequest) -> str:
    sort = request.GET.get("sort", "")
    return sort if sort in SORTS else ""


def leaderboard_evidence(request: HttpRequest) -> HttpResponse:
    """What stands behind the row whose first run is `run`."""
    task, model, run = (request.GET.get(name, "").strip() for name in ("task", "model", "run"))
    groups = ranked_groups(current_project(request), published=False, pairs=[(task, model)])
    row = next((row for group in groups for row in group["rows"] if row["runs"][0] == run), None)
    if row is None:
        raise Http404("no row begins with this run; it may have a newer one")
    return render(request, "leaderboard/_evidence.html", {"row": row})


def leaderboard_efficiency(request: HttpRequest) -> HttpResponse:
    """B at the shared ceiling for the ties of one task and model: asked for by the page, because it fits again."""
    asked, _ = _asked(request)
    pairs, x = [(asked["task"], asked["model"])], asked["x"]
    groups = ranked_groups(current_project(request), x=x, published=False, pairs=pairs)
    ties = efficiencies(groups[0]["rows"]) if len(groups) == 1 else []
    return render(request, "leaderboard/_efficiency.html", {"ties": ties})


def leaderboard_csv(request: HttpRequest) -> HttpResponse:
    """The same rows as CSV, for those signed in here; programs use the API."""
    asked, _ = _asked(request)
    groups = ranked_groups(current_project(request), **asked)
    return csv_file("leaderboard", CSV_COLUMNS, leaderboard_rows(groups, CSV_COLUMNS))


def _asked(request: HttpRequest) -> tuple[dict[str, Any], str]:
    """What `webapp.science.curves.ranking.leaderboard.leaderboard` is asked, and what is wrong with the budget."""
    budget, problem = read_budget(request)
    x = request.GET.get("x", "")
    asked = {
        "budget": budget,
        "x": x if x in AXES else DEFAULT_AXIS,
        "published": request.GET.get("published") == "1",
        "task": request.GET.get("task", "").strip(),
        "model": request.GET.get("model", "").strip(),
    }
    return asked, problem


def _shown(group: dict[str, Any], sort: str) -> dict[str, Any]:
    """A group as its table shows it. Tie bars only in the order of ranks, where the tied stand together."""
    rows = in_order([row | {"series": place} for place, row in enumerate(group["rows"])], sort)
    striped = tie_stripes(rows) if not sort else [(row, "") for row in rows]
    ties = not group["published"] and any(row["tied"] and row["A"] is not None for row in rows)
    query = urlencode({"task": group["task"], "model": group["model"]})
    return group | {
        "stripes": [(row | _addresses(row, query), stripe) for row, stripe in striped],
        "has_ties": ties,
        "efficiency_url": f"{reverse('leaderboard-efficiency')}?{query}&{urlencode({'x': group['axis']})}",
        "compare_url": _all_url(group),
    }


def _addresses(row: dict[str, Any], group: str) -> dict[str, str]:
    """The comparison of a row's runs, and where its evidence stands and comes from; `group`: the query of its group."""
    if not row["runs"]:
        return {"compare_url": "", "behind_id": "", "evidence_url": ""}
    first = row["runs"][0]
    return {
        "compare_url": f"{reverse('compare')}?{urlencode({'run': row['runs']}, doseq=True)}",
        "behind_id": f"behind-{first}",
        "evidence_url": f"{reverse('leaderboard-evidence')}?{group}&{urlencode({'run': first})}",
    }


def _later(request: HttpRequest, task: str, model: str) -> dict[str, str]:
    """A group that comes when the reader gets there, asked as this page was."""
    query = request.GET.copy()
    query["task"], query["model"] = task, model
    return {
        "task": task,
        "model": model,
        "url": f"{reverse('leaderboard-group')}?{query.urlencode()}",
        "page_url": f"{reverse('leaderboard')}?{query.urlencode()}",
    }


def _all_url(group: dict[str, Any], most: int = 12) -> str:
    """The comparison of the best recipes of a group, each with all its runs; empty for fewer than two."""
    rows = [row for row in group["rows"] if row["runs"]][:most]
    runs = [pk for row in rows for pk in row["runs"]]
    if len(rows) < 2 or len(runs) > 100:
        return ""
    return f"{reverse('compare')}?{urlencode({'run': runs, 'by': 'recipe'}, doseq=True)}"
