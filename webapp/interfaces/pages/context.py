"""Context that every page needs: the navigation with its counts."""

from typing import Any

from django.db.models import Count, Exists, QuerySet, Subquery
from django.http import Http404, HttpRequest
from django.urls import reverse

from webapp.identity.accounts.models import Project
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.pages.access import chosen_project, granted, granted_here, projects_of, shown_project
from webapp.record.runs.filtering import SHOWN
from webapp.record.runs.models import Run
from webapp.reporting.alerts.selectors import unread_count
from webapp.science.predictions.models import ReviewRequest
from webapp.science.predictions.selectors import awaiting_review
from webapp.science.studies.models import Study

# The bar. url name, title, the key after `g` (static/js/keys.js), the other url names that belong to it
PAGES = (
    ("overview", "Overview", "o", ("connect",)),
    ("runs", "Runs", "r", ("run", "run-samples", "launch", "imports", "new-import", "import")),
    ("compare", "Compare", "c", ()),
    ("leaderboard", "Leaderboard", "l", ()),
    ("studies", "Studies", "s", ("study", "new-study", "planner")),
    ("predictions", "Predictions", "f", ("prediction", "new-prediction", "calibration", "forecast-record")),
    ("recipes", "Recipes", "e", ("recipe", "new-revision")),
    ("reports", "Reports", "w", ("report", "edit-report", "report-history", "report-links")),
)
IN_BAR = 4  # of them stand in the bar of a narrow screen, the others behind its last button

# Behind one button. url name, title, key, what the reader needs in the chosen project
SETTINGS = (
    ("planner", "Planner", "p", Permission.VIEW),
    ("decisions", "Decisions", "d", Permission.VIEW),
    ("imports", "Imports", "i", Permission.VIEW),
    ("shares", "Shared links", "", Permission.VIEW),
    ("alerts", "Alerts", "a", Permission.VIEW),
    ("automation", "Automation", "", Permission.VIEW),
    ("tokens", "API tokens", "", Permission.VIEW),
    ("api-docs", "API", "", Permission.VIEW),
    ("members", "Members", "", Permission.VIEW),
    ("project-settings", "Project settings", "", Permission.ADMIN),
    ("audit", "Audit log", "", Permission.ADMIN),
    ("organisation", "Organisation", "", Permission.VIEW),
    ("status", "Status", "", Permission.VIEW),
)


def navigation(request: HttpRequest) -> dict[str, Any]:
    """Pages with counts, the user's projects, the current one, and what the reader may do in it (`may`).

    htmx swaps regions only and needs no navigation.
    """
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return {}
    if getattr(request, "htmx", False):
        return {"may": may_of(request) if projects_of(request) else {}}
    try:
        project = chosen_project(request)
    except Http404:
        return {"navigation": {"items": [], "settings": [], "projects": [], "project": None}, "may": {}}
    counts = counts_of(project, request.user)
    here = request.resolver_match.url_name if request.resolver_match else None
    mine = granted_here(request)
    return {
        "navigation": {
            "items": [
                _entry(name, title, key, here == name or here in others) | {"count": counts.get(name)}
                for name, title, key, others in PAGES
            ],
            "in_bar": IN_BAR,
            "settings": [
                _entry(name, title, key, here == name) for name, title, key, need in SETTINGS if need in mine
            ],
            "projects": projects_of(request),
            "project": project,
            "may_launch": Permission.LAUNCH in mine,
            "may_contribute": Permission.CONTRIBUTE in mine,
            "example": example_of(request),
            "has_example": any(one.is_example for one in projects_of(request)),
        },
        "may": may_of(request),
        "unread_notices": unread_count(request.user),
    }


def _entry(name: str, title: str, key: str, current: bool) -> dict[str, Any]:
    return {"url": reverse(name), "title": title, "key": key, "current": current}


def example_of(request: HttpRequest) -> dict[str, bool] | None:
    """For the banner on pages of the example project: whether the reader may remove it. None on others."""
    if not shown_project(request).is_example:
        return None
    return {"removable": any(one.is_example and one.owned for one in projects_of(request))}  # type: ignore[attr-defined]


def counts_of(project: Project, reader: Any) -> dict[str, int | None]:
    """Url name of a page -> how many it lists, which nothing archived is; of predictions, how many wait for the reader.

    One query, and one more for whoever was ever asked for a verdict: what still waits takes long to ask.
    """
    rows: dict[str, QuerySet[Any]] = {
        "runs": Run.objects.filter(SHOWN, project=project),
        "studies": Study.objects.filter(project=project, archived_at=None),
    }
    counted = [
        Subquery(found.order_by().values("project").annotate(number=Count("pk")).values("number"))
        for found in rows.values()
    ]
    asked = Exists(ReviewRequest.objects.filter(reviewer=reader, prediction__project=project))
    *numbers, is_asked = Project.objects.filter(pk=project.pk).values_list(*counted, asked).get()
    found = {name: number or 0 for name, number in zip(rows, numbers, strict=True)}
    return found | {"predictions": (awaiting_review(reader, project).count() or None) if is_asked else None}


def may_of(request: HttpRequest) -> dict[str, bool]:
    """{"launch": True, ...}: what the reader may do in the project of this page."""
    return {str(permission): permission in granted(request) for permission in Permission}
