"""Bearer tokens: the only place that finds who asks, for which project, and whether they may."""

from collections.abc import Iterable
from typing import cast

from django.http import HttpRequest
from ninja.security import HttpBearer

from webapp.base.errors import Forbidden, InvalidInput, NotFound, Unauthorized
from webapp.base.requests import Limit, spend
from webapp.identity.accounts.models import ApiToken, Project, Scope, User
from webapp.identity.accounts.permissions import Permission, grants, refusal
from webapp.identity.accounts.services import PERMISSION_OF_SCOPE
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import has_said_its_end, run_by_id
from webapp.record.runs.states import ENDED
from webapp.record.runs.tokens import find_token, note_use, why_dead

# Of one token at one endpoint. What trainers report is never limited but by its size.
HEAVY = Limit(600, 60)
WHOLE = Limit(30, 60)  # every point of a run, or of many
LEVELS = {Scope.READ: 0, Scope.WRITE: 1, Scope.LAUNCH: 2}


class ApiRequest(HttpRequest):
    """A request whose token was checked."""

    auth: ApiToken


class BearerToken(HttpBearer):
    """`Authorization: Bearer TOKEN` with at least `scope`, of somebody whose role grants `permission`, within `limit`.

    A run's own token passes only where `run_token` says so.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        permission: Permission | None = None,
        limit: Limit | None = None,
        run_token: bool = False,
    ) -> None:
        super().__init__()
        self.scope, self.permission = scope, permission or PERMISSION_OF_SCOPE[scope]
        self.limit, self.run_token = limit, run_token

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken:
        found = find_token(token.strip())
        why = "This token is unknown." if found is None else why_dead(found)
        if found is None or why:
            raise Unauthorized(why)
        note_use(found)
        if found.run_id is not None and not self.run_token:
            raise Forbidden(f"This token can only report run {found.run_id}.")
        check_scope(found, self.scope, self.permission)
        if self.limit is not None and request.resolver_match is not None:
            spend(f"api-{request.resolver_match.url_name}", f"token-{found.pk}", self.limit)
        refuse_nul(request)
        return found


def check_scope(token: ApiToken, scope: Scope, permission: Permission | None = None) -> None:
    """Raises Forbidden unless both the token's scope and the role of its owner, as it is today, reach this far."""
    if LEVELS[Scope(token.scope)] < LEVELS[scope]:
        raise Forbidden(f"This needs a token with the scope {scope}; this one has {token.scope}.")
    wanted = permission or PERMISSION_OF_SCOPE[scope]
    if token.role is not None and not grants(token.role, wanted):
        raise Forbidden(refusal(token.role, wanted))


class Unstated(HttpBearer):
    """What an endpoint gets that names nobody: it is closed to every token."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken:
        raise Forbidden("No token opens this address: it does not say which scope it needs.")


NOBODY = Unstated()
READ = BearerToken(Scope.READ)
READ_HEAVY = BearerToken(Scope.READ, limit=HEAVY)
READ_WHOLE = BearerToken(Scope.READ, limit=WHOLE)
READ_RUN = BearerToken(Scope.READ, run_token=True)
READ_RUN_HEAVY = BearerToken(Scope.READ, limit=HEAVY, run_token=True)
WRITE = BearerToken(Scope.WRITE)
WRITE_HEAVY = BearerToken(Scope.WRITE, limit=HEAVY)
WRITE_RUN = BearerToken(Scope.WRITE, run_token=True)
WRITE_AS_REVIEW = BearerToken(Scope.WRITE, permission=Permission.REVIEW)
WRITE_AS_ADMIN = BearerToken(Scope.WRITE, permission=Permission.ADMIN)
LAUNCH = BearerToken(Scope.LAUNCH)


def refuse_nul(request: HttpRequest) -> None:
    """PostgreSQL has no NUL character in texts; refuse it in address and query before it gets there."""
    if "\0" in request.path:
        raise NotFound("There is nothing at this address.")
    for name, values in request.GET.lists():
        if "\0" in name or any("\0" in value for value in values):
            raise InvalidInput(name.replace("\0", "") or None, "A query parameter holds a NUL character.")


def project_of(request: HttpRequest) -> Project:
    """The project that the token belongs to."""
    return cast(ApiRequest, request).auth.project


def user_of(request: HttpRequest) -> User | None:
    """Who stands behind the token; None where it is nobody's."""
    return cast(ApiRequest, request).auth.user


def person_of(request: HttpRequest) -> User:
    """As `user_of`. Raises Forbidden for a token that is nobody's."""
    if (user := user_of(request)) is None:
        raise Forbidden("This needs the token of a person.")
    return user


def run_of(request: HttpRequest, run_id: str) -> Run:
    """The run, if the token may see it. Raises NotFound, also for runs of others."""
    token = cast(ApiRequest, request).auth
    if token.run_id is not None and token.run_id != run_id:
        raise NotFound(f"There is no run {run_id}.")
    return run_by_id(token.project, run_id)


def check_goes_on(request: HttpRequest, run: Run) -> None:
    """A trainer sends what its journal holds, then its end: after its own word of the end its token writes nothing.

    One whose end somebody else found (its job is gone, it was lost) has an hour for its journal. Raises Unauthorized.
    """
    token = cast(ApiRequest, request).auth
    if token.attempt is None or getattr(token, "attempt_state", None) not in ENDED:
        return
    if has_said_its_end(run, token.attempt):
        raise Unauthorized(
            f"This token could only report attempt {token.attempt} of run {run.pk}, which has ended."
        )


def check_attempt(request: HttpRequest, attempts: Iterable[int]) -> None:
    """A job's own token reports its own attempt, and earlier ones whose journal it found; never a later one's.

    Raises Forbidden.
    """
    token = cast(ApiRequest, request).auth
    last = max(attempts, default=0)
    if token.run_id is not None and token.attempt is not None and last > token.attempt:
        raise Forbidden(
            f"This token can only report attempt {token.attempt} of run {token.run_id}, not {last}."
        )
