"""Reading who is where."""

from collections.abc import Collection, Sequence

from django.db.models import Count, Q, QuerySet

from webapp.identity.accounts.models import Membership, Organisation, Project, Role, User
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
