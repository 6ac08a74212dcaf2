"""Who sees what: every view reaches its project, run or recipe through here, and here only is it decided.

People see the projects that they are members of; anything else does not exist for them (404). Inside a project their
role must grant what the route needs (`webapp.interfaces.routes`; else 403).
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, Q, Subquery
from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404

from webapp.base.errors import InvalidInput, NotFound
from webapp.identity.accounts.models import Membership, Organisation, Project, Role, User
from webapp.identity.accounts.permissions import GRANTS, Permission, grants, refusal
from webapp.interfaces.routes import need_of
from webapp.interfaces.tracking.selectors import CLIENT_KEY
from webapp.record.recipes.models import Recipe
from webapp.record.runs.models import Run

SESSION_KEY = "project"
T = TypeVar("T")


def signed_in(request: HttpRequest) -> User:
    """The user of a page that needs one: `webapp.interfaces.pages.middleware` lets nobody else through to it."""
    return cast(User, request.user)


def projects_of(request: HttpRequest) -> list[Project]:
    """The user's projects, oldest first, each with the user's `role`; read once a request. The example comes last."""
    if not hasattr(request, "_projects"):
        user = signed_in(request)
        owned = Organisation.objects.filter(pk=OuterRef("organisation"), owners=user)
        role = Membership.objects.filter(project=OuterRef("pk"), user=user).values("role")[:1]
        found = Project.objects.annotate(owned=Exists(owned), member_role=Subquery(role))
        theirs = Q(owned=True) | Q(member_role__isnull=False) | Q(is_example=True)
        projects = list(found.filter(theirs).order_by("is_example", "pk"))
        request._projects = projects  # type: ignore[attr-defined]
    return request._projects  # type: ignore[attr-defined]


def role_of(request: HttpRequest, project: Project) -> Role | None:
    """The reader's role in a project, out of `projects_of`."""
    if (known := _known(request, project)) is None:
        return None
    if known.is_example:
        return Role.VIEWER
    return Role.ADMIN if known.owned else Role(known.member_role)


def _known(request: HttpRequest, project: Project) -> Any:
    return next((one for one in projects_of(request) if one.pk == project.pk), None)


def allow(request: HttpRequest, project: Project, permission: Permission | None = None) -> None:
    """Pass if the reader may do what this route needs, or `permission` where an action needs more.

    Raises Http404 for no member, PermissionDenied (403) for too low a role.
    """
    if (role := role_of(request, project)) is None:
        raise Http404("no such project")
    need = need_of(request)
    wanted = permission or need.of(request.method)
    if not isinstance(wanted, Permission):
        raise PermissionDenied("This address takes no such request.")
    if not grants(role, wanted):
        raise PermissionDenied(refusal(role, wanted))
    if need.owners and not _known(request, project).owned:
        raise PermissionDenied("Only an owner of the organisation can do this.")
    request._granted = GRANTS[role]  # type: ignore[attr-defined]
    request._shown = project  # type: ignore[attr-defined]


def has_asked(request: HttpRequest) -> bool:
    """Whether `allow` let this request pass: a page of a project that answers without is a mistake of ours."""
    return hasattr(request, "_shown")


def shown_project(request: HttpRequest) -> Project:
    """The project that the page shows: of the thing that its address names, else the chosen one."""
    return getattr(request, "_shown", None) or chosen_project(request)


def example_project(request: HttpRequest) -> Project:
    """The one that came with Headroom, where it is there. Raises Http404."""
    found = next((project for project in projects_of(request) if project.is_example), None)
    if found is None:
        raise Http404("no example project")
    allow(request, found)
    return found


def granted(request: HttpRequest) -> frozenset[Permission]:
    """What the reader may do in the project of this page: for templates, which show no button that would be refused."""
    return getattr(request, "_granted", None) or granted_here(request)


def granted_here(request: HttpRequest) -> frozenset[Permission]:
    """What the reader may do in the chosen project: for links that lead there from pages of another project."""
    role = role_of(request, chosen_project(request))
    return GRANTS[role] if role else frozenset()


def current_project(request: HttpRequest) -> Project:
    """The project that the user last chose, else the first. Raises Http404 for a user without any."""
    project = chosen_project(request)
    allow(request, project)
    return project


def chosen_project(request: HttpRequest) -> Project:
    """As `current_project`, without asking for the permission of the address: for the navigation around a page."""
    if not (projects := projects_of(request)):
        raise Http404("not a member of any project")
    chosen = request.session.get(SESSION_KEY)
    return next((project for project in projects if project.slug == chosen), projects[0])


def get_in_projects(request: HttpRequest, find: Callable[[Project], T]) -> T:
    """What one of the user's projects has; Http404 where `find` finds it in none."""
    for project in projects_of(request):
        with suppress(NotFound, InvalidInput):
            found = find(project)
            allow(request, project)
            return found
    raise Http404("in none of the projects")


def get_run(request: HttpRequest, run_id: str) -> Run:
    """A run of one of the user's projects, with its revision, also by its client's id; Http404 otherwise."""
    runs = Run.objects.select_related("project", "revision__recipe", "created_by")
    named = {"client_run__key": run_id} if CLIENT_KEY.fullmatch(run_id) else {"pk": run_id}
    run = runs.filter(**named, project__in=projects_of(request)).order_by("-created_at").first()
    if run is None:
        raise Http404(f"no run {run_id}")
    allow(request, run.project)
    return run


def get_recipe(request: HttpRequest, slug: str) -> Recipe:
    """A recipe of the current project; Http404 otherwise."""
    return get_object_or_404(Recipe, project=current_project(request), slug=slug)
