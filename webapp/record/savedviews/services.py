"""Every write to saved views. A change names the version that it was made from; an older one is refused."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from webapp.base.claims import unless_there
from webapp.base.errors import Conflict, InvalidInput, NotFound
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.permissions import Permission, require
from webapp.identity.audit.services import record
from webapp.record.runs.filtering import compile_filter
from webapp.record.savedviews.models import DefaultView, SavedView
from webapp.record.savedviews.selectors import visible_views

MAX_NAME = 60
MAX_COLUMNS = 40
MAX_LAYOUT = 8000
MAX_VIEWS = 100  # of one person in one project
GONE = "This view does not exist any more."


def create_view(
    *,
    user: User,
    project: Project,
    name: str,
    filter: str = "",
    columns: Sequence[str] = (),
    sort: str = "",
    shared: bool = False,
) -> SavedView:
    """A new view of the user's list of runs; sharing it needs CONTRIBUTE.

    Raises InvalidInput (name, filter), Conflict for a name that is taken, and Forbidden for a share without the role.
    """
    return _create(user, project, name, shared, _content(user, filter, columns, sort))


def create_layout(*, user: User, project: Project, name: str, layout: str, shared: bool = False) -> SavedView:
    """A new layout of panels, as the part of a query that says it. Raises as `create_view` does (name, layout)."""
    if len(layout) > MAX_LAYOUT:
        raise InvalidInput("layout", f"layout: at most {MAX_LAYOUT:,} characters.")
    return _create(user, project, name, shared, {"page": SavedView.Page.METRICS, "layout": layout})


def _create(user: User, project: Project, name: str, shared: bool, content: dict[str, Any]) -> SavedView:
    if shared:
        require(user, project, Permission.CONTRIBUTE)
    name = _clean_name(name)
    fields = {"name": name, "shared": shared} | content
    if SavedView.objects.filter(project=project, owner=user).count() >= MAX_VIEWS:
        raise InvalidInput(None, f"You have {MAX_VIEWS} views here; delete one first.")
    with unless_there(_taken(name)):
        view = SavedView.objects.create(project=project, owner=user, **fields)
        if shared:
            _record(view.pk, user, project, shared)
    return view


def overwrite_view(
    view_id: int,
    *,
    user: User,
    project: Project,
    version: int,
    filter: str,
    columns: Sequence[str],
    sort: str,
) -> None:
    """What the view shows from now on. Raises InvalidInput (filter), NotFound, and Conflict for an old version."""
    _change(view_id, user, project, version, _content(user, filter, columns, sort))


def rename_view(view_id: int, *, user: User, project: Project, version: int, name: str) -> None:
    """Raises InvalidInput (name), NotFound, and Conflict for a taken name or an old version."""
    _change(view_id, user, project, version, {"name": _clean_name(name)})


@transaction.atomic
def share_view(view_id: int, *, user: User, project: Project, version: int, shared: bool) -> None:
    """Show the view to all members (which needs CONTRIBUTE), or to its owner alone.

    Raises NotFound, Conflict for an old version, and Forbidden for a share without the role.
    """
    if shared:
        require(user, project, Permission.CONTRIBUTE)
    _change(view_id, user, project, version, {"shared": shared})
    _record(view_id, user, project, shared)
    if not shared:  # who opened with it opens with all runs again
        DefaultView.objects.filter(view=view_id).exclude(user=user).delete()


def _record(view_id: int, user: User, project: Project, shared: bool) -> None:
    name = SavedView.objects.filter(pk=view_id).values_list("name", flat=True).get()
    verb = "view.shared" if shared else "view.unshared"
    record(verb, actor=user, project=project, kind="view", key=view_id, name=name)


def delete_view(view_id: int, *, user: User, project: Project, version: int) -> bool:
    """False where it was deleted before. Raises NotFound for a view of another person, and Conflict for an old
    version."""
    own = SavedView.objects.filter(pk=view_id, owner=user, project=project)
    if own.filter(version=version).delete()[0]:
        return True
    if own.exists():
        raise _changed_meanwhile()
    if SavedView.objects.filter(pk=view_id).exists():
        raise NotFound("This view belongs to somebody else.")
    return False


def set_default(view_id: int | None, *, user: User, project: Project) -> None:
    """Which view the user's list opens with; None: all runs. Raises NotFound."""
    if view_id is None:
        DefaultView.objects.filter(user=user, project=project).delete()
        return
    if not visible_views(user, project).filter(pk=view_id, page=SavedView.Page.RUNS).exists():
        raise NotFound(GONE)
    DefaultView.objects.update_or_create(user=user, project=project, defaults={"view_id": view_id})


def _change(view_id: int, user: User, project: Project, version: int, fields: dict[str, Any]) -> None:
    """A conditional UPDATE: of two tabs that change the same version, one is told so."""
    own = SavedView.objects.filter(pk=view_id, owner=user, project=project)
    with unless_there(_taken(str(fields.get("name", "")))):
        changed = own.filter(version=version).update(
            version=F("version") + 1, updated_at=timezone.now(), **fields
        )
    if changed:
        return
    if own.exists():
        raise _changed_meanwhile()
    raise NotFound(GONE)


def _content(user: User, filter: str, columns: Sequence[str], sort: str) -> dict[str, Any]:
    compile_filter(filter, user=user)
    return {"filter": filter.strip(), "columns": list(columns)[:MAX_COLUMNS], "sort": sort[:200]}


def _clean_name(name: str) -> str:
    if not (text := " ".join(name.split())):
        raise InvalidInput("name", "name: a view needs a name.")
    if len(text) > MAX_NAME or not text.isprintable():
        raise InvalidInput(
            "name", f"name: a view's name has at most {MAX_NAME} characters, all of them printable."
        )
    return text


def _taken(name: str) -> Conflict:
    return Conflict(
        f"name: you have a view “{name}” already; overwrite it, or choose another name.", field="name"
    )


def _changed_meanwhile() -> Conflict:
    return Conflict(
        "This view was changed meanwhile, perhaps in another tab. Nothing was saved; look at it again."
    )
