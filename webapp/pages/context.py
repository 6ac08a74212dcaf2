"""Context that every page needs: the navigation with its counts."""

from typing import Any

from django.http import Http404, HttpRequest
from django.urls import reverse

from webapp.pages.access import current_project, projects_of
from webapp.recipes.models import Recipe
from webapp.runs.models import Run

# url name, title, the url names that belong to it
PAGES = (
    ("overview", "Overview", {"overview"}),
    ("runs", "Runs", {"runs", "run", "launch"}),
    ("compare", "Compare", {"compare"}),
    ("leaderboard", "Leaderboard", {"leaderboard"}),
    ("studies", "Studies", {"studies", "study", "new-study"}),
    ("planner", "Planner", {"planner"}),
    ("recipes", "Recipes", {"recipes", "recipe", "new-revision"}),
)

# After `g`: the pages that a key leads to, wherever one is (static/js/keys.js reads them off the navigation).
KEYS = {
    "overview": "o",
    "runs": "r",
    "compare": "c",
    "leaderboard": "l",
    "studies": "s",
    "planner": "p",
    "predictions": "f",
    "recipes": "e",
}


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Pages with counts, the user's projects and the current one. htmx swaps regions only and needs none of it."""
    if (
        getattr(request, "htmx", False)
        or not getattr(request, "user", None)
        or not request.user.is_authenticated
    ):
        return {}
    try:
        project = current_project(request)
    except Http404:
        return {"navigation": {"items": [], "projects": [], "project": None}}
    counts = {
        "runs": Run.objects.filter(project=project).count(),
        "recipes": Recipe.objects.filter(project=project).count(),
    }
    here = request.resolver_match.url_name if request.resolver_match else None
    items = [
        {
            "url": reverse(name),
            "title": title,
            "current": here in names,
            "count": counts.get(name),
            "key": KEYS.get(name),
        }
        for name, title, names in PAGES
    ]
    return {"navigation": {"items": items, "projects": projects_of(request), "project": project}}
