"""Accounts, organisations, projects, members and API tokens: every write."""

import hashlib
import secrets
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.events import project_created
from webapp.identity.accounts.models import ApiToken, Membership, Organisation, Project, Role, Scope, User
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


def default_organisation() -> Organisation:
    """The organisation that an installation begins with; made when it is first asked for."""
    return Organisation.objects.get_or_create(
        slug=DEFAULT_ORGANISATION, defaults={"name": "Default organisation"}
    )[0]


def set_role(project: Project, user: User, role: Role) -> Membership:
    """Make the user a member in this role, or change the role. Safe to repeat."""
    return Membership.objects.update_or_create(project=project, user=user, defaults={"role": Role(role)})[0]


def create_project(*, slug: str, name: str, organisation: Organisation | None = None) -> Project:
    """A project, with the shipped recipes in it (`webapp.record.recipes.signals`); without an organisation, in the
    default one.

    Raises Conflict where the slug is taken.
    """
    try:
        with transaction.atomic():
            project = Project.objects.create(
                slug=slug, name=name, organisation=organisation or default_organisation()
            )
            project_created.send(Project, project=project)
    except IntegrityError as error:
        raise Conflict(f"There is already a project {slug}.", field="slug") from error
    return project


def default_project() -> Project:
    """The project that an installation begins with; made when it is first asked for."""
    project = Project.objects.filter(slug=DEFAULT_PROJECT).first()
    if project is not None:
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
