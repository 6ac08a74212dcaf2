"""Going on by itself after a failure of the infrastructure: the next attempt, from the newest checkpoint.

A failure of the recipe would come again, so it is never retried. What was stopped by a person is not either. What
stepped back for a run of higher priority goes on the same way.
"""

from collections.abc import Collection
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from webapp.base.claims import wait_after
from webapp.record.runs.bounds import SPENT_SHARE
from webapp.record.runs.models import Attempt, Dispatch, Run, State
from webapp.record.runs.states import RECONCILIATION, queue_next_attempts

RETRIED = frozenset({State.FAILED, State.LOST})
FIRST_WAIT = timedelta(seconds=10)  # then 30 s, 90 s, ...
LONGEST_WAIT = timedelta(minutes=15)
TOO_LATE = timedelta(hours=1)  # after its end a run is left as it is


@transaction.atomic
def retry_failed(alive: Collection[str]) -> int:
    """Queue the next attempt of every run whose infrastructure failed; how many. A constant number of statements.

    `alive`: submission ids of the jobs that Ray has, which are taken back instead.
    """
    rows = [row for row in _candidates() if row[5] not in alive]
    if not rows:
        return 0
    now, wanted, due = timezone.now(), [], {}
    for run_id, attempt, retries, limit, message, _ in rows:
        wait = wait_after(retries + 1, first=FIRST_WAIT, longest=LONGEST_WAIT, factor=3)
        due[run_id] = (attempt + 1, now + wait)
        why = f"Retry {retries + 1} of {limit} in {wait.total_seconds():.0f} s, from the newest checkpoint"
        wanted.append((run_id, attempt, f"{why}: {message}"[:2000]))
    queued = queue_next_attempts(wanted, leaving=RETRIED, is_retry=True, part=RECONCILIATION)
    submit = Dispatch.Kind.SUBMIT
    Dispatch.objects.bulk_create(
        Dispatch(run_id=run_id, attempt=due[run_id][0], kind=submit, claimed_until=due[run_id][1])
        for run_id in queued
    )
    return len(queued)


@transaction.atomic
def go_on() -> int:
    """Queue the next attempt of every run that has stepped back; how many. A constant number of statements."""
    rows = list(_stepped_back().values_list("run_id", "number"))
    wanted = [(run_id, attempt, "It stepped back for a run of higher priority") for run_id, attempt in rows]
    queued = queue_next_attempts(wanted, leaving=frozenset({State.CANCELLED}), part=RECONCILIATION)
    Dispatch.objects.bulk_create(
        Dispatch(run_id=run_id, attempt=attempt + 1, kind=Dispatch.Kind.SUBMIT)
        for run_id, attempt in rows
        if run_id in queued
    )
    return len(queued)


def _stepped_back() -> QuerySet[Attempt]:
    return Attempt.objects.filter(
        failure=Attempt.Failure.STEPPED_BACK,
        state=State.CANCELLED,
        ended_at__gt=timezone.now() - TOO_LATE,
        number=F("run__attempt_number"),
        run__state=State.CANCELLED,
        run__archived_at=None,
    )


def is_wanted() -> bool:
    """Whether a run waits for its retry, be it the only one. One query."""
    return bool(_candidates())


def _candidates() -> list[tuple[str, int, int, int, str, str]]:
    """(run, attempt, retries so far, their limit, why it ended, submission id). One query."""
    stop = Dispatch.objects.filter(run=OuterRef("run"), attempt=OuterRef("number"), kind=Dispatch.Kind.STOP)
    limit = Coalesce(F("run__retry_limit"), Value(settings.RETRIES))
    failed = Attempt.objects.filter(
        state__in=RETRIED,
        failure=Attempt.Failure.INFRASTRUCTURE,
        ended_at__gt=timezone.now() - TOO_LATE,
        number=F("run__attempt_number"),
        run__state__in=RETRIED,
        run__origin=Run.Origin.LAUNCHED,
        run__archived_at=None,
        run__retries__lt=limit,
    ).exclude(run__summary__used_hours__gte=F("run__budget_hours") * SPENT_SHARE)
    rows = failed.annotate(limit=limit).filter(~Exists(stop)).order_by("id")
    names = ("run_id", "number", "run__retries", "limit", "message", "submission_id")
    return list(rows.values_list(*names))
