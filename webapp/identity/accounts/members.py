"""Who is in a project, and as what: every change after the first. A project always has an admin among its members."""

from typing import Any

from django.db import transaction

from webapp.base.errors import Conflict, InvalidInput, NotFound
from webapp.identity.accounts.models import Membership, Project, Role, User
from webapp.identity.accounts.services import set_role
from webapp.identity.audit.services import record

LAST_ADMIN = "{} is the project's last admin: make somebody else an admin first."


@transaction.atomic
def change_role(project: Project, user: User, role: str, *, actor: User) -> None:
    """Give a member another role; the same again changes nothing.

    Raises InvalidInput (role), NotFound where the user is no member, Conflict for the last admin.
    """
    membership = _locked(project, user)
    wanted = checked_role(role)
    if membership.role == wanted:
        return
    if wanted != Role.ADMIN:
        _refuse_last_admin(membership)
    before = membership.role
    set_role(project, user, wanted)
    _record("member.role_changed", project, user, actor, role=[before, wanted.value])


@transaction.atomic
def remove_member(project: Project, user: User, *, actor: User) -> None:
    """Take somebody out of the project; their tokens for it open nothing any more. Members may leave by themselves.

    Raises NotFound where the user is no member, Conflict for the last admin.
    """
    membership = _locked(project, user)
    _refuse_last_admin(membership)
    membership.delete()
    verb = "member.left" if actor == user else "member.removed"
    _record(verb, project, user, actor, role=membership.role)


@transaction.atomic
def put_member(project: Project, user: User, role: str) -> bool:
    """For the operator of the installation: make the user a member in this role; False where they were it before.

    Raises InvalidInput (role) and Conflict where the project's last admin would lose the role.
    """
    wanted = checked_role(role)
    lock(project)
    membership = Membership.objects.filter(project=project, user=user).select_related("user").first()
    if membership is None:
        set_role(project, user, wanted)
        _record("member.added", project, user, None, role=wanted.value)
        return True
    if membership.role == wanted:
        return False
    if wanted != Role.ADMIN:
        _refuse_last_admin(membership)
    set_role(project, user, wanted)
    _record("member.role_changed", project, user, None, role=[membership.role, wanted.value])
    return True


def checked_role(role: str) -> Role:
    """Raises InvalidInput (role)."""
    if role not in Role.values:
        raise InvalidInput("role", f"The role must be one of {', '.join(Role.values)}.")
    return Role(role)


def lock(project: Project) -> None:
    """Changes of a project's members come one after the other: of two admins that demote each other, one is refused."""
    Project.objects.select_for_update().get(pk=project.pk)


def _locked(project: Project, user: User) -> Membership:
    lock(project)
    membership = Membership.objects.filter(project=project, user=user).select_related("user").first()
    if membership is None:
        raise NotFound(f"{user} is not a member of this project.")
    return membership


def _refuse_last_admin(membership: Membership) -> None:
    admins = Membership.objects.filter(
        project=membership.project_id, role=Role.ADMIN, user__is_active=True
    ).exclude(pk=membership.pk)
    if membership.role == Role.ADMIN and not admins.exists():
        raise Conflict(LAST_ADMIN.format(membership.user))


def _record(verb: str, project: Project, user: User, actor: User | None, **detail: Any) -> None:
    record(verb, actor=actor, project=project, kind="member", key=user.pk, name=user.get_username(), **detail)
