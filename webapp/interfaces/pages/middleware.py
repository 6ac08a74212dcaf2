"""What happens between a request and a view of the pages.

What each route needs (`webapp.interfaces.routes`), enforced in one place and closed unless the route opens it.

Before a view runs: its route must say what it needs, its method must exist there, whoever is not signed in is sent to
the sign-in, and who asks too often is told to wait. After it ran: a page of a project that answered without asking
`access.allow` is an error of ours, so that a view that forgets to ask is found by its first test and shows nothing.
The API and the protocols of other trackers ask for tokens themselves (`webapp.interfaces.api.auth`).

No view of a page sees a NUL character: not in its address, which is not there then, in a query, or in a form. The API
refuses them by itself, as do the protocols of other trackers.

Context that every page needs: the navigation with its counts.
"""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Exists, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.multipartparser import MultiPartParser
from django.middleware.csrf import CsrfViewMiddleware
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.defaults import page_not_found, permission_denied

from webapp.base.errors import Forbidden, NotFound, ServiceError
from webapp.base.requests import TooMany, asked_by_script, spend, without_nul
from webapp.identity.accounts.models import Project
from webapp.identity.accounts.permissions import Permission
from webapp.identity.audit.services import client_address
from webapp.interfaces.pages.access import (
    allow,
    chosen_project,
    granted,
    granted_here,
    has_asked,
    projects_of,
    shown_project,
)
from webapp.interfaces.routes import EVERYBODY, NOTHING, TOKEN, Need, need_of
from webapp.record.runs.filtering import SHOWN
from webapp.record.runs.models import Run
from webapp.reporting.alerts.selectors import unread_count
from webapp.science.predictions.models import ReviewRequest
from webapp.science.predictions.selectors import awaiting_review
from webapp.science.studies.models import Study

API = "/api/"  # answers errors in its own form
WORDS = "You have been signed out."


class NeverAsked(RuntimeError):
    """A view of a project answered without having asked what the reader may do there."""


class RouteRules:
    """Asks for what the route says before a view, and whether the view asked for the role after it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.parse_file_upload = partial(_read_form, request)  # type: ignore[method-assign]
        response = self.get_response(request)
        is_open = has_asked(request) or hasattr(request, "_sent_away")
        if need_of(request).in_project and response.status_code < HTTPStatus.BAD_REQUEST and not is_open:
            name = request.resolver_match.view_name  # type: ignore[union-attr]
            raise NeverAsked(f"{name} answered {response.status_code} without asking what the reader may do")
        if isinstance(response, HttpResponseNotAllowed) and not request.path.startswith(API):
            response.content = render_to_string("405.html", request=request)
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        if not request.path.startswith(API):
            if "\0" in request.path:
                raise Http404("No address of a page holds a NUL character.")
            request.GET = without_nul(request.GET)  # type: ignore[assignment]
            request.POST = without_nul(request.POST)  # type: ignore[assignment]
        need = need_of(request)
        if need.read is TOKEN:
            return None
        if EVERYBODY not in (need.read, need.write) and not request.user.is_authenticated:
            return _send_away(request)
        if need == NOTHING:
            raise PermissionDenied("Nobody may open this address: it does not say what it needs.")
        if request.method not in need.methods:
            return HttpResponseNotAllowed(need.methods)
        return _refuse_too_many(request, need)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """What a service refused, and no view had words of its own for, is answered as `allow` would."""
        if request.path.startswith(API):
            return None
        if isinstance(error, Forbidden):
            return permission_denied(request, PermissionDenied(error.message))
        if isinstance(error, NotFound):
            return page_not_found(request, Http404(error.message))
        if isinstance(error, ServiceError):
            return _said(request, "That cannot be done", error)
        return None


def _said(request: HttpRequest, title: str, error: ServiceError) -> HttpResponse:
    """A page of one sentence; where a script asks, the sentence alone."""
    if asked_by_script(request):
        return HttpResponse(error.message, status=error.status, content_type="text/plain")
    context = {"title": title, "sentence": error.message}
    return HttpResponse(render_to_string("shares/gone.html", context), status=error.status)


def _send_away(request: HttpRequest) -> HttpResponse:
    """To the sign-in page; a script that asks for a region or for data gets a 401.

    Otherwise the form for signing in would be swapped into the middle of the page that stands open.
    """
    if asked_by_script(request):
        return HttpResponse(WORDS, status=HTTPStatus.UNAUTHORIZED, content_type="text/plain")
    request._sent_away = True  # type: ignore[attr-defined]
    return redirect_to_login(_page_of(request))


def _refuse_too_many(request: HttpRequest, need: Need) -> HttpResponse | None:
    """429 with the seconds to wait, beyond the limit of the route."""
    limit = need.limit or (need.limit_of_writes if request.method == "POST" else None)
    if limit is None:
        return None
    is_known = request.user.is_authenticated
    who = f"user-{request.user.pk}" if is_known else f"address-{client_address(request)}"
    try:
        spend(request.resolver_match.view_name, who, limit)  # type: ignore[union-attr]
    except TooMany as error:
        response = _said(request, "Too many requests", error)
        response["Retry-After"] = str(error.wait)
        return response
    return None


def _read_form(request: HttpRequest, meta: dict[str, Any], content: Any) -> tuple[Any, Any]:
    """As Django reads a form with files; whether a file may be stored is asked when it begins."""
    parser = MultiPartParser(meta, content, request.upload_handlers, request.encoding)
    request.may_upload = partial(_may_upload, request, parser)  # type: ignore[attr-defined]
    return parser.parse()


def _never(*_: object) -> HttpResponse:
    """A view that no answer is asked of."""
    return HttpResponse()


def _may_upload(request: HttpRequest, parser: MultiPartParser) -> bool:
    """Whether the reader may upload here. The field against forged requests stands before the files."""
    if not need_of(request).takes_files or not request.user.is_authenticated:
        return False
    try:
        allow(request, chosen_project(request))
    except (Http404, PermissionDenied):
        return False
    request._post = parser._post  # type: ignore[attr-defined]  # the fields so far: what the check reads
    try:
        return CsrfViewMiddleware(_never).process_view(request, _never, (), {}) is None
    finally:
        del request._post  # type: ignore[attr-defined]


def _page_of(request: HttpRequest) -> str:
    """The address that is asked for; of a form that was sent, that of the page it stood on, which can be opened."""
    if request.method in ("GET", "HEAD"):
        return request.get_full_path()
    came_from = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(came_from, {request.get_host()}):
        return "/"
    return urlsplit(came_from)._replace(scheme="", netloc="", fragment="").geturl() or "/"


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
    items = [
        _entry(name, title, key, here == name or here in others) | {"count": counts.get(name)}
        for name, title, key, others in PAGES
    ]
    elsewhere = not any(item["current"] for item in items)
    return {
        "navigation": {
            "items": items,
            "in_bar": IN_BAR,
            "settings": [
                _entry(name, title, key, elsewhere and here == name)
                for name, title, key, need in SETTINGS
                if need in mine
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
