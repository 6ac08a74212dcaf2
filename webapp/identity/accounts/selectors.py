"""Reading who is where.

Which API tokens a person sees: names and dates, never a value. Jobs' own tokens are not listed: they end with it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, Q, QuerySet

from webapp.identity.accounts.models import ApiToken, Membership, Organisation, Project, Role, User
from webapp.identity.accounts.services import DEFAULT_ORGANISATION


def members_of(project: Project) -> QuerySet[Membership]:
    """The project's members with their accounts, by name. One query."""
    return Membership.objects.filter(project=project).select_related("user").order_by("user__username")


def owners_of(organisation: Organisation) -> QuerySet[User]:
    """By name. One query."""
    return organisation.owners.order_by("username")


def projects_of_organisation(
    organisation: Organisation, *, shown: Collection[int] | None
) -> QuerySet[Project]:
    """Its projects with `member_count` and `admin_count`, oldest first; with `shown`, only these ids."""
    found = Project.objects.filter(organisation=organisation)
    if shown is not None:
        found = found.filter(pk__in=shown)
    admins = Count("memberships", filter=Q(memberships__role=Role.ADMIN))
    return found.annotate(member_count=Count("memberships"), admin_count=admins).order_by("pk")


def organisations_that_hear_of(user: User | None) -> Sequence[Organisation | None]:
    """Whose audit log tells of this account: those that it belongs to. Of nobody's, and of who belongs to none, that of
    the organisation that the installation began with; None alone where it is gone."""
    belongs = Q(owners=user) | Q(projects__members=user)
    theirs = list(Organisation.objects.filter(belongs).distinct()) if user is not None else []
    return theirs or [Organisation.objects.filter(slug=DEFAULT_ORGANISATION).first()]


def people_of(organisation: Organisation) -> QuerySet[User]:
    """Members of its projects who are not its owners, by name."""
    found = User.objects.filter(projects__organisation=organisation, is_active=True)
    return found.exclude(owned_organisations=organisation).distinct().order_by("username")


@dataclass(frozen=True)
class Listed:
    """A token as a row: `state` is valid, expired or revoked."""

    token: ApiToken
    state: str


def tokens_of(user: User, projects: Sequence[Project], now: datetime) -> list[Listed]:
    """The user's own in these projects: those that open something first, the newest first."""
    return _listed(ApiToken.objects.filter(user=user, project__in=projects), now)


def others_tokens_of(project: Project, user: User, now: datetime) -> list[Listed]:
    """Those of everybody else in the project, in the same order."""
    return _listed(ApiToken.objects.filter(project=project).exclude(user=user), now)


def _listed(found: QuerySet[ApiToken], now: datetime) -> list[Listed]:
    rows = found.filter(run=None).select_related("project", "user")
    in_order = rows.order_by(F("revoked_at").desc(nulls_first=True), "-created_at", "-pk")
    listed = [Listed(token, state_of(token, now)) for token in in_order]
    return sorted(listed, key=lambda row: row.state != "valid")


def state_of(token: ApiToken, now: datetime) -> str:
    """valid, expired or revoked."""
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now else "valid"
