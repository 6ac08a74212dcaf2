"""Which API tokens a person sees: names and dates, never a value. Jobs' own tokens are not listed: they end with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, QuerySet

from webapp.identity.accounts.models import ApiToken, Project, User


@dataclass(frozen=True)
class Listed:
    """A token as a row: `state` is valid, expired or revoked."""

    token: ApiToken
    state: str


def tokens_of(user: User, projects: Sequence[Project], now: datetime) -> list[Listed]:
    """The user's own in these projects: those that open something first, the newest first."""
    return _listed(ApiToken.objects.filter(user=user, project__in=projects), now)


def others_tokens_of(project: Project, user: User, now: datetime) -> list[Listed]:
    """Those of everybody else in the project, in the same order."""
    return _listed(ApiToken.objects.filter(project=project).exclude(user=user), now)


def _listed(found: QuerySet[ApiToken], now: datetime) -> list[Listed]:
    rows = found.filter(run=None).select_related("project", "user")
    in_order = rows.order_by(F("revoked_at").desc(nulls_first=True), "-created_at", "-pk")
    listed = [Listed(token, state_of(token, now)) for token in in_order]
    return sorted(listed, key=lambda row: row.state != "valid")


def state_of(token: ApiToken, now: datetime) -> str:
    """valid, expired or revoked."""
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now else "valid"
