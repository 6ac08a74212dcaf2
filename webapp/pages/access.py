"""Who sees what: people see the projects that they are members of; anything else does not exist for them."""

from typing import cast

from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404

from webapp.accounts.models import Project, User
from webapp.recipes.models import Recipe
from webapp.runs.models import Run

SESSION_KEY = "project"


def signed_in(request: HttpRequest) -> User:
    """The user of a page behind `login_required`."""
    return cast(User, request.user)


def projects_of(request: HttpRequest) -> list[Project]:
    """The user's projects, oldest first; read once a request."""
    if not hasattr(request, "_projects"):
        request._projects = list(signed_in(request).projects.order_by("pk"))  # type: ignore[attr-defined]
    return request._projects  # type: ignore[attr-defined]


def current_project(request: HttpRequest) -> Project:
    """The project that the user last chose, else the first. Raises Http404 for a user without any."""
    projects = projects_of(request)
    if not projects:
        raise Http404("not a member of any project")
    chosen = request.session.get(SESSION_KEY)
    return next((project for project in projects if project.slug == chosen), projects[0])


def get_run(request: HttpRequest, run_id: str) -> Run:
    """A run of one of the user's projects, with its revision; Http404 otherwise."""
    runs = Run.objects.select_related("project", "revision__recipe", "created_by")
    return get_object_or_404(runs, pk=run_id, project__in=projects_of(request))


def get_recipe(request: HttpRequest, slug: str) -> Recipe:
    """A recipe of the current project; Http404 otherwise."""
    return get_object_or_404(Recipe, project=current_project(request), slug=slug)
