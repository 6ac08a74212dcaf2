"""Accounts, organisations, projects, members and API tokens: every write.

Who is in a project, and as what: every change after the first. A project always has an admin among its members.

Organisations with their owners, and projects made and named by people.
"""

import hashlib
import re
import secrets
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from webapp.base.claims import unless_there
from webapp.base.errors import Conflict, InvalidInput, NotFound, first_of
from webapp.identity.accounts.models import (
    ApiToken,
    Membership,
    Organisation,
    Project,
    Role,
    Scope,
    User,
    project_created,
)
from webapp.identity.accounts.permissions import Permission, grants, refusal, role_in
from webapp.identity.audit.services import record

PERMISSION_OF_SCOPE = {
    Scope.READ: Permission.VIEW,
    Scope.WRITE: Permission.CONTRIBUTE,
    Scope.LAUNCH: Permission.LAUNCH,
}
DEFAULT_ORGANISATION = "default"
DEFAULT_PROJECT = "default"
TOKEN_PREFIX = "hr_"
MAX_TOKEN_NAME = 80
MAX_TOKEN_DAYS = 3650
LAST_ADMIN = "{} is the project's last admin: make somebody else an admin first."
MOST_METRICS = 1_000_000  # of a run, whatever its project wants
SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,48}[a-z0-9])?")
MAX_NAME = 100


def default_organisation() -> Organisation:
    """The organisation that an installation begins with; made when it is first asked for."""
    return Organisation.objects.get_or_create(
        slug=DEFAULT_ORGANISATION, defaults={"name": "Default organisation"}
    )[0]


def set_role(project: Project, user: User, role: Role) -> Membership:
    """Make the user a member in this role, or change the role. Safe to repeat."""
    return Membership.objects.update_or_create(project=project, user=user, defaults={"role": Role(role)})[0]


def create_project(*, slug: str, name: str, organisation: Organisation | None = None) -> Project:
    """A project, with the shipped recipes in it (`webapp.record.recipes.apps`); without an organisation, in the
    default one.

    Raises Conflict where the slug is taken.
    """
    with unless_there(Conflict(f"There is already a project {slug}.", field="slug")):
        project = Project.objects.create(
            slug=slug, name=name, organisation=organisation or default_organisation()
        )
        project_created.send(Project, project=project)
    return project


def default_project() -> Project:
    """The project that an installation begins with; made when it is first asked for."""
    if (project := Project.objects.filter(slug=DEFAULT_PROJECT).first()) is not None:
        return project
    try:
        return create_project(slug=DEFAULT_PROJECT, name="Default")
    except Conflict:  # made by someone else meanwhile
        return Project.objects.get(slug=DEFAULT_PROJECT)


@transaction.atomic
def first_account(username: str) -> str | None:
    """Make the installation's first account and return its generated password; None where accounts exist."""
    if User.objects.exists():
        return None
    password = secrets.token_urlsafe(12)
    User.objects.create_superuser(username=username, password=password)
    return password


@transaction.atomic
def create_token(
    *,
    user: User | None,
    project: Project,
    scope: str,
    run_id: str | None = None,
    attempt: int | None = None,
    name: str = "",
    days: int | None = None,
) -> str:
    """A new API token. The raw token is returned here and never again: only its SHA-256 is stored.

    It opens its project for `days` days, or until it is revoked. With `run_id` it may report that one run and
    nothing else, up to `attempt`, and dies with that attempt (`webapp.record.runs.tokens`).

    Raises InvalidInput (name, days, scope, user) for what cannot be used, a scope that the user's role does not reach,
    and a user who is no member of the project.
    """
    name = _token_name(name)
    if days is not None and not 1 <= days <= MAX_TOKEN_DAYS:
        raise InvalidInput("days", f"days must be from 1 to {MAX_TOKEN_DAYS:,}.")
    if scope not in Scope.values:
        raise InvalidInput("scope", f"scope must be one of {', '.join(Scope.values)}.")
    if user is not None:
        role, wanted = role_in(user, project), PERMISSION_OF_SCOPE[Scope(scope)]
        if role is None:
            raise InvalidInput("user", f"{user} is not a member of the project {project.slug}.")
        if not grants(role, wanted):
            raise InvalidInput("scope", refusal(role, wanted))
    raw = TOKEN_PREFIX + secrets.token_urlsafe(32)
    expires_at = None if days is None else timezone.now() + timedelta(days=days)
    token = ApiToken.objects.create(
        user=user, project=project, run_id=run_id, attempt=attempt, scope=scope, name=name, expires_at=expires_at,
        digest=digest(raw),
    )  # fmt: skip
    if user is not None:  # a job's own token is part of its launch
        until = expires_at.isoformat() if expires_at else None
        _record("token.created", token, actor=user, scope=scope, expires_at=until)
    return raw


def _token_name(name: str) -> str:
    text = " ".join(name.split())
    if len(text) > MAX_TOKEN_NAME or not text.isprintable():
        raise InvalidInput(
            "name", f"name must have at most {MAX_TOKEN_NAME} characters, all of them printable."
        )
    return text


def _record(verb: str, token: ApiToken, *, actor: User | None, **detail: Any) -> None:
    record(verb, actor=actor, project=token.project, kind="token", key=token.pk, name=token.name, **detail)


def digest(raw: str) -> str:
    """What is stored of a token. The token has 256 random bits, so a plain hash cannot be searched."""
    return hashlib.sha256(raw.encode()).hexdigest()


@transaction.atomic
def revoke_token(token: ApiToken, *, user: User | None = None) -> None:
    """From now on the token opens nothing. Safe to repeat. `user` is who revokes it: its owner, or an admin."""
    if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
        owner = token.user.get_username() if token.user is not None else None
        _record("token.revoked", token, actor=user, owner=owner)


@transaction.atomic
def change_role(project: Project, user: User, role: str, *, actor: User | None) -> bool:
    """Give a member another role; False where it is the same, and nothing changes. `actor` None: the operator.

    Raises InvalidInput (role), NotFound where the user is no member, Conflict for the last admin.
    """
    membership = _locked(project, user)
    wanted = checked_role(role)
    if membership.role == wanted:
        return False
    if wanted != Role.ADMIN:
        _refuse_last_admin(membership)
    set_role(project, user, wanted)
    _record_member("member.role_changed", project, user, actor, role=[membership.role, wanted.value])
    return True


@transaction.atomic
def remove_member(project: Project, user: User, *, actor: User) -> None:
    """Take somebody out of the project; their tokens for it open nothing any more. Members may leave by themselves.

    Raises NotFound where the user is no member, Conflict for the last admin.
    """
    membership = _locked(project, user)
    _refuse_last_admin(membership)
    membership.delete()
    verb = "member.left" if actor == user else "member.removed"
    _record_member(verb, project, user, actor, role=membership.role)


@transaction.atomic
def put_member(project: Project, user: User, role: str) -> bool:
    """For the operator of the installation: make the user a member in this role; False where they were it before.

    Raises InvalidInput (role) and Conflict where the project's last admin would lose the role.
    """
    wanted = checked_role(role)
    lock(project)
    if Membership.objects.filter(project=project, user=user).exists():
        return change_role(project, user, role, actor=None)
    set_role(project, user, wanted)
    _record_member("member.added", project, user, None, role=wanted.value)
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
    rows = Membership.objects.filter(project=project, user=user).select_related("user")
    return first_of(rows, f"{user} is not a member of this project.")


def _refuse_last_admin(membership: Membership) -> None:
    admins = Membership.objects.filter(
        project=membership.project_id, role=Role.ADMIN, user__is_active=True
    ).exclude(pk=membership.pk)
    if membership.role == Role.ADMIN and not admins.exists():
        raise Conflict(LAST_ADMIN.format(membership.user))


def _record_member(verb: str, project: Project, user: User, actor: User | None, **detail: Any) -> None:
    record(verb, actor=actor, project=project, kind="member", key=user.pk, name=user.get_username(), **detail)


@transaction.atomic
def found_organisation(*, slug: str, name: str, owner: User) -> Organisation:
    """A new organisation, without projects, of one owner: for the operator of the installation.

    Raises InvalidInput (slug, name), Conflict (slug) where it is taken.
    """
    slug, name = checked_slug(slug), checked_name(name)
    with unless_there(Conflict(f"There is an organisation {slug} already.", field="slug")):
        organisation = Organisation.objects.create(slug=slug, name=name)
    organisation.owners.add(owner)
    _record_organisation("organisation.created", organisation, None, slug, name, owner=owner.username)
    return organisation


@transaction.atomic
def found_project(organisation: Organisation, *, slug: str, name: str, actor: User | None) -> Project:
    """A new project of the organisation, with the shipped recipes; who makes it is its first admin. None: the operator.

    Raises InvalidInput (slug, name), Conflict (slug) where it is taken.
    """
    project = create_project(slug=checked_slug(slug), name=checked_name(name), organisation=organisation)
    if actor is not None:
        set_role(project, actor, Role.ADMIN)
    record(
        "project.created", actor=actor, project=project, kind="project", key=project.slug, name=project.name
    )
    return project


@transaction.atomic
def change_project(
    project: Project, *, name: str, ranks_forecasters: bool, actor: User, max_metrics: int | None = None
) -> None:
    """Its name, whether it shows a leaderboard of forecasters, and how many metrics a run may have (None: as before).

    Raises InvalidInput (name, max_metrics).
    """
    wanted: dict[str, Any] = {"name": checked_name(name), "ranks_forecasters": ranks_forecasters}
    if max_metrics is not None:
        if not 1 <= max_metrics <= MOST_METRICS:
            raise InvalidInput(
                "max_metrics", f"max_metrics must be a whole number from 1 to {MOST_METRICS:,}."
            )
        wanted["max_metrics"] = max_metrics
    stored = Project.objects.select_for_update().get(pk=project.pk)
    before = {key: getattr(stored, key) for key in wanted}
    if wanted == before:
        return
    Project.objects.filter(pk=project.pk).update(**wanted)
    record(
        "project.changed", actor=actor, project=project, kind="project", key=project.slug, name=wanted["name"],
        changed={key: [before[key], wanted[key]] for key in wanted if before[key] != wanted[key]},
    )  # fmt: skip


@transaction.atomic
def rename_organisation(organisation: Organisation, *, name: str, actor: User) -> None:
    """Raises InvalidInput (name)."""
    name = checked_name(name)
    if not Organisation.objects.filter(pk=organisation.pk).exclude(name=name).update(name=name):
        return
    _record_organisation(
        "organisation.renamed", organisation, actor, organisation.slug, name, before=organisation.name
    )


@transaction.atomic
def add_owner(organisation: Organisation, *, username: str, actor: User) -> User:
    """Make a member of one of its projects an owner. Safe to repeat.

    Raises InvalidInput (username) for who is in none of its projects.
    """
    people = User.objects.filter(projects__organisation=organisation, is_active=True).distinct()
    if (user := people.filter(username=username.strip()).first()) is None:
        raise InvalidInput("username", "No member of this organisation's projects has this name.")
    _lock(organisation)
    if not organisation.owners.filter(pk=user.pk).exists():
        organisation.owners.add(user)
        _record_organisation("organisation.owner_added", organisation, actor, user.pk, user.username)
    return user


def person_of(organisation: Organisation, user_id: int) -> User:
    """Another owner, or a member of a project. Raises NotFound for anybody else, who is not named."""
    known = Q(owned_organisations=organisation) | Q(projects__organisation=organisation)
    people = User.objects.filter(known, pk=user_id).distinct()
    return first_of(people, "There is no such person in this organisation.")


@transaction.atomic
def remove_owner(organisation: Organisation, *, user: User, actor: User) -> None:
    """From now on the person is in the organisation's projects what their roles say, no more.

    Raises NotFound where the user is no owner, Conflict for the last owner.
    """
    _lock(organisation)
    if not organisation.owners.filter(pk=user.pk).exists():
        raise NotFound(f"{user} is no owner of this organisation.")
    if not organisation.owners.filter(is_active=True).exclude(pk=user.pk).exists():
        raise Conflict(f"{user} is the organisation's last owner: make somebody else an owner first.")
    organisation.owners.remove(user)
    _record_organisation("organisation.owner_removed", organisation, actor, user.pk, user.username)


def checked_name(name: str) -> str:
    """Of a project or an organisation, with single spaces. Raises InvalidInput (name)."""
    text = " ".join(name.split())
    if not 1 <= len(text) <= MAX_NAME or not text.isprintable():
        raise InvalidInput("name", f"A name has 1 to {MAX_NAME} printable characters.")
    return text


def checked_slug(slug: str) -> str:
    """Raises InvalidInput (slug)."""
    text = slug.strip()
    if not SLUG.fullmatch(text):
        raise InvalidInput("slug", "A slug has 1 to 50 characters: a-z, 0-9 and hyphens between them.")
    return text


def _lock(organisation: Organisation) -> None:
    Organisation.objects.select_for_update().get(pk=organisation.pk)


def _record_organisation(
    verb: str, organisation: Organisation, actor: User | None, key: object, name: str, **detail: Any
) -> None:
    kind = "owner" if verb.startswith("organisation.owner") else "organisation"
    record(verb, actor=actor, organisation=organisation, kind=kind, key=key, name=name, **detail)
