"""Shares: every write.

What a share is called unless its author says otherwise.
"""

import secrets
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.services import digest
from webapp.identity.audit.services import record
from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Run
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.questions import Question
from webapp.science.predictions import claims
from webapp.science.predictions.models import Prediction

TOKEN_BYTES = 24  # 192 random bits: a plain hash of it cannot be searched
MAX_DAYS = 3650
SEEN_RESOLUTION = timedelta(minutes=5)


@transaction.atomic
def create_share(
    *, user: User, project: Project, kind: str, title: str, question: Question, days: int | None
) -> str:
    """A new link, open for `days` days or until it is revoked; its token is returned here and never again.

    Raises InvalidInput for a title or a number of days that cannot be used.
    """
    title = " ".join(title.split())
    if not title:
        raise InvalidInput("title", "A title is required.")
    if len(title) > 160:
        raise InvalidInput("title", "The title must have at most 160 characters.")
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise InvalidInput("days", f"The number of days must be between 1 and {MAX_DAYS:,}.")
    token = secrets.token_urlsafe(TOKEN_BYTES)
    share = Share.objects.create(
        project=project, created_by=user, kind=kind, title=title, question=question, digest=digest(token),
        expires_at=None if days is None else timezone.now() + timedelta(days=days),
    )  # fmt: skip
    _record("share.made", share, user, days=days)
    return token


@transaction.atomic
def revoke_share(share: Share, *, user: User | None = None) -> None:
    """From now on the link shows nothing. Safe to repeat."""
    if Share.objects.filter(pk=share.pk, revoked_at=None).update(revoked_at=timezone.now()):
        _record("share.closed", share, user)


def _record(verb: str, share: Share, user: User | None, **detail: Any) -> None:
    record(verb, actor=user, project=share.project, kind="share", key=share.pk, name=share.title, **detail)


def note_visit(share: Share) -> None:
    """Remember that somebody looked, at most every five minutes."""
    now = timezone.now()
    if share.last_seen_at is None or share.last_seen_at < now - SEEN_RESOLUTION:
        Share.objects.filter(pk=share.pk).update(last_seen_at=now)


LONGEST = 160


def title_of(kind: str, question: Question) -> str:
    """The run's name, "A against B", or the claim; one query at most."""
    if kind == Share.Kind.PREDICTION:
        return _of_prediction(question["prediction"])
    wanted = [question["run"]] if kind == Share.Kind.RUN else question["runs"]
    found = Run.objects.filter(pk__in=wanted).only("name", "seed").in_bulk() if wanted else {}
    labels = [label_of(found[pk]) for pk in wanted if pk in found]
    if kind == Share.Kind.COMPARISON:
        labels += question["refs"]
    if len(labels) > 3:
        return f"{len(labels)} curves"
    return " against ".join(labels)[:LONGEST]


def _of_prediction(key: str) -> str:
    found = Prediction.objects.select_related("rival__revision__recipe").get(pk=key)
    return claims.in_a_line(found)[:LONGEST]
