"""Accounts, organisations, projects, members and API tokens: every write."""

import hashlib
import secrets
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, Subquery
from django.utils import timezone

from webapp.accounts.models import ApiToken, Membership, Organisation, Project, Role, Scope, User
from webapp.accounts.permissions import Permission, grants, refusal, role_in
from webapp.errors import Conflict, InvalidInput
from webapp.recipes.services import sync_shipped_recipes
from webapp.runs.models import Run

PERMISSION_OF_SCOPE = {
    Scope.READ: Permission.VIEW,
    Scope.WRITE: Permission.CONTRIBUTE,
    Scope.LAUNCH: Permission.LAUNCH,
}
DEFAULT_ORGANISATION = "default"
DEFAULT_PROJECT = "default"
TOKEN_PREFIX = "hr_"
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


def create_token(*, user: User | None, project: Project, scope: str, run: Run | None = None) -> str:
    """A new API token. The raw token is returned here and never again: only its SHA-256 is stored.

    With `run` it may report that one run and nothing else. Raises InvalidInput for an unknown scope or a user
    who is no member of the project.
    """
    if scope not in Scope.values:
        raise InvalidInput("scope", f"scope must be one of {', '.join(Scope.values)}.")
    if user is not None:
        role, wanted = role_in(user, project), PERMISSION_OF_SCOPE[Scope(scope)]
        if role is None:
            raise InvalidInput("user", f"{user} is not a member of the project {project.slug}.")
        if not grants(role, wanted):
            raise InvalidInput("scope", refusal(role, wanted))
    raw = TOKEN_PREFIX + secrets.token_urlsafe(32)
    ApiToken.objects.create(user=user, project=project, run=run, scope=scope, digest=digest(raw))
    return raw


def digest(raw: str) -> str:
    """What is stored of a token. The token has 256 random bits, so a plain hash cannot be searched."""
    return hashlib.sha256(raw.encode()).hexdigest()


def authenticate(raw: str) -> ApiToken | None:
    """The token with its project, user, run and `role` (its owner's today; None of a run's token). One query.

    None where it is unknown, revoked, expired, or its owner is no member any more.
    """
    owns = Organisation.objects.filter(pk=OuterRef("project__organisation"), owners=OuterRef("user"))
    role = Membership.objects.filter(project=OuterRef("project"), user=OuterRef("user")).values("role")[:1]
    user_may = Q(user=None) | Q(user__is_active=True) & (Q(owned=True) | Q(member_role__isnull=False))
    in_time = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    token = (
        ApiToken.objects.annotate(owned=Exists(owns), member_role=Subquery(role))
        .filter(user_may, in_time, digest=digest(raw), revoked_at=None)
        .select_related("project", "user")
        .first()
    )
    if token is None:
        return None
    if token.user_id is not None:
        token.role = Role.ADMIN if token.owned else Role(token.member_role)
    _note_use(token)
    return token


def _note_use(token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or token.last_used_at < now - LAST_USED_RESOLUTION:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def revoke_token(token: ApiToken) -> None:
    """From now on the token opens nothing. Safe to repeat."""
    ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
