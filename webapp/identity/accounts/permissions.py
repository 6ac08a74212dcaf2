"""Who may do what: the one place that says it. A role in a project grants permissions; anything else is refused.

Someone who is no member must not learn that a project exists: callers answer 404 where `role_in` is None, and 403
where the role does not grant what was asked.
"""

from enum import StrEnum

from django.db.models import Exists, OuterRef, Subquery

from webapp.base.errors import Forbidden, NotFound
from webapp.identity.accounts.models import Membership, Organisation, Project, Role, User


class Permission(StrEnum):
    """What can be granted in a project."""

    VIEW = "view"  # read everything of the project
    CONTRIBUTE = "contribute"  # report runs, write recipes, views, shares, predictions, comments, reports
    LAUNCH = "launch"  # spend compute: launch, stop, resume, archive, studies
    REVIEW = "review"  # judge the predictions of others
    ADMIN = "admin"  # members, invitations, secrets, alerts of the project, its audit log


_ORDER = (
    (Role.VIEWER, Permission.VIEW),
    (Role.CONTRIBUTOR, Permission.CONTRIBUTE),
    (Role.LAUNCHER, Permission.LAUNCH),
    (Role.REVIEWER, Permission.REVIEW),
    (Role.ADMIN, Permission.ADMIN),
)
GRANTS: dict[Role, frozenset[Permission]] = {
    role: frozenset(permission for _, permission in _ORDER[: place + 1])
    for place, (role, _) in enumerate(_ORDER)
}
NEEDED_ROLE: dict[Permission, Role] = {permission: role for role, permission in _ORDER}


def role_in(user: User, project: Project) -> Role | None:
    """The user's role; None for no member. Owners of the project's organisation are admins. At most one query.

    Of the example project everybody is a viewer, and nobody more.
    """
    if not user.is_active:
        return None
    if project.is_example:
        return Role.VIEWER
    owned = Organisation.objects.filter(pk=OuterRef("organisation"), owners=user)
    member_role = Membership.objects.filter(project=OuterRef("pk"), user=user).values("role")[:1]
    found = Project.objects.filter(pk=project.pk).values_list(Exists(owned), Subquery(member_role)).first()
    is_owner, role = found or (False, None)
    return Role.ADMIN if is_owner else Role(role) if role is not None else None


def grants(role: Role | None, permission: Permission) -> bool:
    """Whether a role includes a permission; no role includes none."""
    return role is not None and permission in GRANTS[role]


def may(user: User, project: Project, permission: Permission) -> bool:
    """Whether the user may do this in the project."""
    return grants(role_in(user, project), permission)


def require(user: User, project: Project, permission: Permission) -> Role:
    """The user's role where it grants the permission. Raises NotFound for no member, Forbidden for too low a role."""
    if (role := role_in(user, project)) is None:
        raise NotFound("There is no such project.")
    if not grants(role, permission):
        raise Forbidden(refusal(role, permission))
    return role


def refusal(role: Role, permission: Permission) -> str:
    """Why a role is not enough, and which one would be."""
    return f"This needs the role {NEEDED_ROLE[permission]} in this project; yours is {role}."
