"""Stored logs of attempts that ended long ago. The last 64 KiB of each stay, in the attempt itself."""

from datetime import datetime, timedelta

from django.db.models import QuerySet

from webapp.identity.accounts.models import Project
from webapp.record.logs.models import JobLog
from webapp.record.retention.folders import KEEP_TAG
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.states import ENDED

MOST_LOGS = 200  # at a time


def old_logs(project: Project, policy: RetentionPolicy, now: datetime) -> QuerySet[JobLog]:
    """Those that the policy lets go; none with `log_days` 0."""
    if not policy.log_days:
        return JobLog.objects.none()
    before = now - timedelta(days=policy.log_days)
    found = JobLog.objects.filter(
        attempt__run__project=project, attempt__state__in=ENDED, attempt__ended_at__lt=before, closed_at__isnull=False,
        lines__gt=0,
    )  # fmt: skip
    return found.exclude(attempt__run__tags__contains=[KEEP_TAG])


def drop_old_logs(project: Project, policy: RetentionPolicy, now: datetime) -> int:
    """Delete some of them; returns how many. The row stays, empty, so that they are not read anew."""
    ids = list(old_logs(project, policy, now).values_list("pk", flat=True)[:MOST_LOGS])
    for row in JobLog.objects.filter(pk__in=ids):
        row.chunks.all().delete()
    return JobLog.objects.filter(pk__in=ids).update(lines=0, size=0)
