"""Reading saved views: one's own and those shared with the project."""

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from webapp.identity.accounts.models import Project, User
from webapp.record.savedviews.models import DefaultView, SavedView


@dataclass(frozen=True)
class Views:
    """What a person sees in a project: own views first, then shared ones; and which the list opens with."""

    items: list[SavedView]
    default: int | None

    def by_id(self, text: str) -> SavedView | None:
        """The view that an address names; None where there is none, any more or for this person."""
        return next((view for view in self.items if str(view.pk) == text), None)


def visible_views(user: User, project: Project) -> QuerySet[SavedView]:
    """Views of this project that the user may open."""
    return SavedView.objects.filter(Q(owner=user) | Q(shared=True), project=project)


def views_of(user: User, project: Project) -> Views:
    """Of the list of runs. Two queries for any number of views."""
    found = _own_first(user, project, SavedView.Page.RUNS)
    default = DefaultView.objects.filter(user=user, project=project).values_list("view_id", flat=True).first()
    return Views(found, default)


def layouts_of(user: User, project: Project) -> list[SavedView]:
    """Of panels of metrics, own ones first. One query."""
    return _own_first(user, project, SavedView.Page.METRICS)


def _own_first(user: User, project: Project, page: SavedView.Page) -> list[SavedView]:
    found = list(visible_views(user, project).filter(page=page).select_related("owner"))
    return sorted(found, key=lambda view: (view.owner_id != user.pk, view.created_at, view.pk))
