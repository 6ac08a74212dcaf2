"""What an API token opens: its owner's project, or for a job's own token one run, as long as its attempt lasts.

Secrets that were replaced or deleted: kept as long as a job may have been given them, so that its log is cleaned.
"""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from webapp.base.compiled import Compiled
from webapp.identity.accounts.models import ApiToken, Membership, Organisation, Role, Scope
from webapp.identity.accounts.services import create_token, digest
from webapp.identity.secrets.models import ProjectSecret
from webapp.record.runs.models import Attempt, Run, State
from webapp.record.runs.states import ACTIVE, ENDED

RUN_TOKEN_GRACE = timedelta(hours=1)  # after its attempt's end, for what the trainer's journal still holds
LAST_USED_RESOLUTION = timedelta(minutes=1)  # so that a busy trainer does not cost a write a request
LOST_FOR_GOOD = timedelta(
    days=7
)  # a lost job that is heard of within it is still cleaned of what it was given


def find_token(raw: str) -> ApiToken | None:
    """The token of this text, dead or alive, with its project, user, `role` (its owner's today; None of a run's token),
    and how its attempt stands. One query."""
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


def create_job_token(run: Run, attempt: int | None = None) -> str:
    """A job's own token: it may report this run and nothing else, up to `attempt` (None: the current one)."""
    number = run.attempt_number if attempt is None else attempt
    return create_token(user=None, project=run.project, scope=Scope.WRITE, run_id=run.pk, attempt=number)


def purge_retired() -> int:
    """Delete retired values that no unfinished job can have; returns how many. Part of every round of
    reconciliation."""
    may_run = Q(state__in=ACTIVE - {State.QUEUED}) | Q(
        state=State.LOST, ended_at__gt=timezone.now() - LOST_FOR_GOOD
    )
    given = Attempt.objects.filter(
        may_run,
        run__project=OuterRef("project"),
        run__origin=Run.Origin.LAUNCHED,
        created_at__lt=OuterRef("retired_at"),
    )
    return ProjectSecret.objects.exclude(retired_at=None).exclude(Exists(given)).delete()[0]
