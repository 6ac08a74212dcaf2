"""Secrets that were replaced or deleted: kept as long as a job may have been given them, so that its log is cleaned."""

from datetime import timedelta

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from webapp.identity.secrets.models import ProjectSecret
from webapp.record.runs.models import Attempt, Run, State
from webapp.record.runs.states import ACTIVE

LOST_FOR_GOOD = timedelta(
    days=7
)  # a lost job that is heard of within it is still cleaned of what it was given


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
