"""Accounts, organisations, projects, members and API tokens: every write."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, QuerySet, Subquery
from django.utils import timezone

from webapp.accounts.models import ApiToken, Membership, Organisation, Project, Role, Scope, User
from webapp.accounts.permissions import Permission, grants, refusal, require, role_in
from webapp.audit.services import record
from webapp.compiled import Compiled
from webapp.errors import Conflict, InvalidInput
from webapp.recipes.services import sync_shipped_recipes
from webapp.runs.models import Attempt, Run, State
from webapp.runs.states import ENDED

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
RUN_TOKEN_GRACE = timedelta(hours=1)  # after its attempt's end, for what the trainer's journal still holds
LAST_USED_RESOLUTION = timedelta(minutes=1)  # so that a busy trainer does not cost a write a request


def default_organisation() -> Organisation:
    """The organisation that an installation begins with; made when it is first asked for."""
    return Organisation.objects.get_or_create(
        slug=DEFAULT_ORGANISATION, defaults={"name": "Default organisation"}
    )[0]


def set_role(project: Project, user: User, role: Role) -> Membership:
    """Make the user a member in this role, or change the role. Safe to repeat."""
    return Membership.objects.update_or_create(project=project, user=user, defaults={"role": Role(role)})[0]


def create_project(*, slug: str, name: str, organisation: Organisation | None = None) -> Project:
    """A project with the shipped recipes in it; without an organisation, in the default one.

    Raises Conflict where the slug is taken.
    """
    try:
        with transaction.atomic():
            project = Project.objects.create(
                slug=slug, name=name, organisation=organisation or default_organisation()
            )
            sync_shipped_recipes(project)
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
    run: Run | None = None,
    attempt: int | None = None,
    name: str = "",
    days: int | None = None,
) -> str:
    """A new API token. The raw token is returned here and never again: only its SHA-256 is stored.

    It opens its project for `days` days, or until it is revoked. With `run` it may report that one run and nothing
    else, up to `attempt` (None: the run's current one), and dies with that attempt.

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
    if run is not None and attempt is None:
        attempt = run.attempt_number
    token = ApiToken.objects.create(
        user=user, project=project, run=run, attempt=attempt, scope=scope, name=name, expires_at=expires_at,
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


def authenticate(raw: str) -> ApiToken | None:
    """The token with its project, user and `role` (its owner's today; None of a run's token). One query.

    None where it is unknown or dead (`why_dead`).
    """
    token = find_token(raw)
    if token is None or why_dead(token):
        return None
    note_use(token)
    return token


def find_token(raw: str) -> ApiToken | None:
    """The token of this text, dead or alive, with its project, user, `role`, and how its attempt stands. One query."""
    token: Any = _TOKEN.first(digest=digest(raw))  # with the columns that `_token_of` adds
    if token is not None and token.user_id is not None:
        member = Role.ADMIN if token.owned else Role(token.member_role) if token.member_role else None
        token.role = Role.VIEWER if token.project.is_example else member
    return token


def _token_of(digest: str) -> QuerySet[ApiToken]:
    owns = Organisation.objects.filter(pk=OuterRef("project__organisation"), owners=OuterRef("user"))
    role = Membership.objects.filter(project=OuterRef("project"), user=OuterRef("user")).values("role")[:1]
    attempt = Attempt.objects.filter(run=OuterRef("run"), number=OuterRef("attempt"))
    return (
        ApiToken.objects.annotate(
            owned=Exists(owns), member_role=Subquery(role), newest_attempt=F("run__attempt_number"),
            attempt_state=Subquery(attempt.values("state")), attempt_ended_at=Subquery(attempt.values("ended_at")),
        )
        .filter(digest=digest)
        .select_related("project", "user")
    )  # fmt: skip


_TOKEN = Compiled(_token_of, digest="a digest")


def why_dead(token: ApiToken) -> str:
    """Why a token of `find_token` opens nothing any more, in a sentence; empty where it does.

    A job's own token ends an hour after its attempt, so that a late journal still arrives; the newest attempt may come
    back from being lost, one that a later attempt has followed may not.
    """
    now = timezone.now()
    if token.revoked_at is not None:
        return "This token was revoked."
    if token.expires_at is not None and token.expires_at <= now:
        return f"This token expired on {token.expires_at:%-d %B %Y, %H:%M} UTC."
    if token.user is not None and (not token.user.is_active or token.role is None):
        return "The owner of this token is no member of its project any more."
    if token.run_id is not None and _attempt_is_over(token, now):
        return f"This token could only report attempt {token.attempt} of run {token.run_id}, which has ended."
    return ""


def _attempt_is_over(token: ApiToken, now: datetime) -> bool:
    """Whether the attempt of a token of `find_token` ended, and the hour for what its journal still held has passed."""
    state, ended_at = getattr(token, "attempt_state", None), getattr(token, "attempt_ended_at", None)
    if state == State.LOST and token.attempt == getattr(token, "newest_attempt", None):
        return False
    return state in ENDED and (ended_at is None or ended_at + RUN_TOKEN_GRACE <= now)


def note_use(token: ApiToken) -> None:
    """Remember that the token was used, once a minute."""
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_RESOLUTION:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


@transaction.atomic
def revoke_token(token: ApiToken, *, user: User | None = None) -> None:
    """From now on the token opens nothing. Safe to repeat. `user` is who revokes it: its owner, or an admin.

    Raises Forbidden or NotFound for another member's token without ADMIN.
    """
    if user is not None and user.pk != token.user_id:
        require(user, token.project, Permission.ADMIN)
    if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now()):
        owner = token.user.get_username() if token.user is not None else None
        _record("token.revoked", token, actor=user, owner=owner)
