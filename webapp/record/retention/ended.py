"""Stored logs and responses of runs that ended long ago: what is kept of them, and taking the rest away."""

from datetime import datetime, timedelta

from django.db.models import QuerySet

from webapp.identity.accounts.models import Project
from webapp.record.logs.models import JobLog
from webapp.record.retention.folders import KEEP_TAG
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.states import ENDED
from webapp.record.samples.models import SampleFile
from webapp.record.samples.store import remove_file

MOST_FILES = 200  # at a time
MOST_LOGS = 200  # at a time


def old_samples(project: Project, policy: RetentionPolicy, now: datetime) -> QuerySet[SampleFile]:
    """Those that the policy lets go, of runs that ended as long ago as logs that go; none with `log_days` 0."""
    if not policy.log_days:
        return SampleFile.objects.none()
    before = now - timedelta(days=policy.log_days)
    found = SampleFile.objects.filter(
        run__project=project, run__state__in=ENDED, run__ended_at__lt=before, size__gt=0
    )
    return found.exclude(run__tags__contains=[KEEP_TAG])


def drop_old_samples(project: Project, policy: RetentionPolicy, now: datetime) -> int:
    """Remove the files of some of them; returns how many."""
    found = list(old_samples(project, policy, now).only("run_id", "kind", "step")[:MOST_FILES])
    for file in found:
        remove_file(file.run_id, file.kind, file.step)
    return SampleFile.objects.filter(pk__in=[file.pk for file in found]).update(size=0)


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
