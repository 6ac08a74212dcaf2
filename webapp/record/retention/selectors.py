"""The policy in force, the runs that it is about, and the dry run."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from webapp.identity.accounts.models import Project
from webapp.record.retention import folders
from webapp.record.retention.models import DiskWatch, Looked, RetentionPolicy
from webapp.record.runs.models import Run
from webapp.record.runs.states import ENDED

LOOK_AGAIN = timedelta(hours=12)
MOST_SHOWN = 50  # runs of a dry run
DRY_SECONDS = 3.0


@dataclass(frozen=True)
class Preview:
    """What a clean-up would take away now. `looked_at` of `runs` ended runs were looked at in the time there is."""

    rows: Sequence[tuple[Run, Sequence[folders.Going]]]
    size: int  # bytes
    count: int  # checkpoints
    log_count: int  # attempts whose stored logs are old enough
    looked_at: int
    runs: int
    sample_count: int  # steps whose samples are old enough


def policy_of(project: Project) -> RetentionPolicy:
    """The project's, or what it would begin with, not enabled."""
    return RetentionPolicy.objects.filter(project=project).first() or RetentionPolicy(project=project)


def is_disk_low() -> bool:
    """As the worker last saw it."""
    return DiskWatch.objects.filter(low_since__isnull=False).exists()


def ended_runs(project: Project) -> QuerySet[Run]:
    """Runs of the cluster that have ended, the longest ago first, with whether a prediction rests on them."""
    runs = Run.objects.filter(
        project=project, origin=Run.Origin.LAUNCHED, state__in=ENDED, ended_at__isnull=False
    )
    predicted = Exists(Run.objects.filter(pk=OuterRef("pk"), predictions__isnull=False))
    return runs.annotate(is_predicted=predicted).defer("config").order_by("ended_at", "pk")


def not_lately_looked_at(runs: QuerySet[Run], now: datetime) -> QuerySet[Run]:
    """Without those where nothing can be found that was not there some hours ago."""
    lately = Looked.objects.filter(run=OuterRef("pk"), at__gt=now - LOOK_AGAIN)
    done = Looked.objects.filter(run=OuterRef("pk"), is_empty=True, at__gt=OuterRef("ended_at"))
    return runs.filter(~Exists(lately), ~Exists(done))


def preview(project: Project, policy: RetentionPolicy) -> Preview:
    """The dry run: what the policy, enabled or not, would take away now."""
    now, is_low = timezone.now(), is_disk_low()
    until = time.monotonic() + DRY_SECONDS
    rows: list[tuple[Run, list[folders.Going]]] = []
    looked_at = 0
    runs = ended_runs(project)
    for run in runs.iterator(chunk_size=200):
        if time.monotonic() > until:
            break
        looked_at += 1
        found = folders.going(run, folders.checkpoints_of(run.pk), policy, now, is_low=is_low)
        if found:
            rows.append((run, found))
    every = [one for _, found in rows for one in found]
    return Preview(
        rows[:MOST_SHOWN], size_of(every), len(every), folders.old_logs(project, policy, now).count(), looked_at,
        runs.count(), folders.old_samples(project, policy, now).count(),
    )  # fmt: skip


def size_of(found: Iterable[folders.Going]) -> int:
    """Bytes."""
    return sum(one.kept.size for one in found)
