"""Writing signs of life down. Each is one statement, and safe to repeat."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from webapp.record.health.models import ClusterSeen, LastRound, WorkerSeen

FORGET_WORKER_AFTER = timedelta(days=1)
CLUSTER_EVERY = timedelta(seconds=15)


def worker_lives(name: str, *, host: str, version: str, started_at: datetime) -> None:
    """The worker of this name is alive now."""
    WorkerSeen.objects.update_or_create(
        name=name,
        defaults={"host": host, "version": version, "started_at": started_at, "seen_at": timezone.now()},
    )


def worker_ends(name: str) -> None:
    """The worker of this name was stopped: it is not missed."""
    WorkerSeen.objects.filter(name=name).delete()


def forget_old_workers() -> int:
    """Drop those that have not been heard of for a day; returns how many."""
    return WorkerSeen.objects.filter(seen_at__lt=timezone.now() - FORGET_WORKER_AFTER).delete()[0]


def note_round(began_at: datetime, failures: Mapping[str, str]) -> None:
    """A round of reconciliation has ended. `failures`: step -> why."""
    seconds = (timezone.now() - began_at).total_seconds()
    LastRound.objects.update_or_create(
        pk=1,
        defaults={
            "began_at": began_at,
            "seconds": seconds,
            "failures": {k: v[:300] for k, v in failures.items()},
        },
    )


def is_cluster_due() -> bool:
    """Whether the cluster was not asked for a while."""
    asked = ClusterSeen.objects.values_list("asked_at", flat=True).first()
    return asked is None or timezone.now() - asked > CLUSTER_EVERY


def note_cluster(nodes: Sequence[Mapping[str, Any]]) -> None:
    """Ray said that it has these nodes."""
    now = timezone.now()
    ClusterSeen.objects.update_or_create(
        pk=1, defaults={"asked_at": now, "seen_at": now, "error": "", "nodes": list(nodes)}
    )


def note_groups(groups: Mapping[str, Any]) -> None:
    """Where Ray has placed jobs, and which wait inside it; nothing is written that is known."""
    ClusterSeen.objects.filter(pk=1).exclude(groups=dict(groups)).update(groups=dict(groups))


def note_no_cluster(error: str) -> None:
    """Ray did not say; what it said before stays, with its time."""
    ClusterSeen.objects.update_or_create(pk=1, defaults={"asked_at": timezone.now(), "error": error[:500]})
