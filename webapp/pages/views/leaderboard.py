"""Recipes by ceiling, per task and model."""

import csv
import math
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.curves.leaderboard import leaderboard as ranked_groups
from webapp.pages.access import current_project

CSV_COLUMNS = (
    "task", "model", "rank", "recipe", "revision", "published", "source", "identified",
    "A", "lo", "hi", "B", "c90", "at_budget", "seeds", "unit",
)  # fmt: skip


@login_required
@require_GET
def leaderboard(request: HttpRequest) -> HttpResponse:
    """The tables; a budget that cannot be read is said beside its field and left out."""
    budget, problem = _budget(request)
    show_published = request.GET.get("published") == "1"
    groups = ranked_groups(current_project(request), budget=budget, published=show_published)
    context = {
        "groups": [group | {"stripes": tie_stripes(group["rows"])} for group in groups],
        "show_published": show_published,
        "has_own": any(not group.get("published") for group in groups),
        "source": next((row["source"] for group in groups for row in group["rows"] if row["published"]), ""),
        "budget": budget,
        "problem": problem,
    }
    return render(request, "leaderboard.html", context)


@login_required
@require_GET
def leaderboard_csv(request: HttpRequest) -> HttpResponse:
    """The same rows as CSV, for those signed in here; programs use the API."""
    budget, _ = _budget(request)
    published = request.GET.get("published") == "1"
    response = HttpResponse(content_type="text/csv")
    response["Content-Disposition"] = 'attachment; filename="leaderboard.csv"'
    writer = csv.writer(response)
    writer.writerow(CSV_COLUMNS)
    for group in ranked_groups(current_project(request), budget=budget, published=published):
        for row in group["rows"]:
            flat = row | {name: group[name] for name in ("task", "model", "unit")}
            flat["identified"] = row["ceiling"]["identified"]
            writer.writerow([flat.get(column) for column in CSV_COLUMNS])
    return response


def _budget(request: HttpRequest) -> tuple[float | None, str]:
    """Device-hours of the query, or None and what is wrong."""
    text = request.GET.get("budget", "").replace(",", "").strip()
    if not text:
        return None, ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        return None, "a number above 0, in device-hours"
    return value, ""


def tie_stripes(rows: list[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Each row with the class of its tie bar: neighbouring tie groups alternate, who is alone has none."""
    striped, current, parity = [], None, False
    for row in rows:
        if row["tied"] and row["tie_group"] != current:
            current, parity = row["tie_group"], not parity
        striped.append((row, ("odd" if parity else "even") if row["tied"] else ""))
    return striped
