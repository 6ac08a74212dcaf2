"""Accounts, projects and API tokens: every write."""

import hashlib
import secrets
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from webapp.accounts.models import ApiToken, Project, Scope, User
from webapp.errors import Conflict, InvalidInput
from webapp.recipes.services import sync_shipped_recipes
from webapp.runs.models import Run

DEFAULT_PROJECT = "default"
TOKEN_PREFIX = "hr_"
LAST_USED_RESOLUTION = timedelta(minutes=1)  # so that a busy trainer does not cost a write a request


def create_project(*, slug: str, name: str) -> Project:
    """A project with the shipped recipes in it. Raises Conflict where the slug is taken."""
    try:
        with transaction.atomic():
            project = Project.objects.create(slug=slug, name=name)
            sync_shipped_recipes(project)
    except IntegrityError as error:
        raise Conflict(f"There is already a project {slug}.", field="slug") from error
    return project


def default_project() -> Project:
    """The project that every account belongs to; made when it is first asked for."""
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


def create_token(*, user: User | None, project: Project, scope: str, run: Run | None = None) -> str:
    """A new API token. The raw token is returned here and never again: only its SHA-256 is stored.

    With `run` it may report that one run and nothing else. Raises InvalidInput for an unknown scope or a user
    who is no member of the project.
    """
    if scope not in Scope.values:
        raise InvalidInput("scope", f"scope must be one of {', '.join(Scope.values)}.")
    if user is not None and not project.members.filter(pk=user.pk).exists():
        raise InvalidInput("user", f"{user} is not a member of the project {project.slug}.")
    raw = TOKEN_PREFIX + secrets.token_urlsafe(32)
    ApiToken.objects.create(user=user, project=project, run=run, scope=scope, digest=digest(raw))
    return raw


def digest(raw: str) -> str:
    """What is stored of a token. The token has 256 random bits, so a plain hash cannot be searched."""
    return hashlib.sha256(raw.encode()).hexdigest()


def authenticate(raw: str) -> ApiToken | None:
    """The token with its project, user and run; None where it is unknown, revoked, or its user left. One query."""
    user_may = Q(user=None) | Q(user__is_active=True, project__members=F("user"))
    token = (
        ApiToken.objects.filter(user_may, digest=digest(raw), revoked_at=None)
        .select_related("project", "user")
        .first()
    )
    if token is not None:
        _note_use(token)
    return token


def _note_use(token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_RESOLUTION:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def revoke_token(token: ApiToken) -> None:
    """From now on the token opens nothing. Safe to repeat."""
    ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
