"""What waits for the cluster and what holds it, over all projects: they share it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Dispatch, Point, Run, State
from webapp.record.runs.pace import time_left
from webapp.record.runs.selectors import span_of_runs
from webapp.record.runs.states import ACTIVE, WAITING

MOST_READ = 200  # more than that many unfinished runs are counted, not read


@dataclass(frozen=True)
class Held:
    """An unfinished run of the cluster: what it holds or waits for, GPUs and CPU cores."""

    run_id: str
    project_id: int
    name: str
    waits: bool
    gpus: int
    cpus: int
    left: timedelta | None  # until its budget is spent; None: not known


@dataclass(frozen=True)
class Queue:
    """`waiting` and `working` are counts of all; `held` has the oldest MOST_READ of them, oldest first."""

    waiting: int
    working: int
    held: Sequence[Held]
    undelivered: str  # why the newest hand-over to Ray failed, where one is still tried again


def queue_now() -> Queue:
    """Three queries, whatever the size."""
    unfinished = Run.objects.filter(origin=Run.Origin.LAUNCHED, state__in=ACTIVE)
    rows = list(
        unfinished.defer("config")
        .annotate(resources=F("config__resources"))
        .order_by("created_at")[:MOST_READ]
    )
    spans = span_of_runs([run.pk for run in rows if run.state == State.RUNNING])
    held = [_held(run, spans.get(run.pk)) for run in rows]
    waiting = sum(row.waits for row in held)
    failing = Dispatch.objects.filter(done_at=None).exclude(error="").order_by("-id")
    return Queue(waiting, len(held) - waiting, held, failing.values_list("error", flat=True).first() or "")


def _held(run: Run, span: tuple[Point, Point] | None) -> Held:
    resources = getattr(run, "resources", None) or {}
    gpus, cpus = (_amount(resources, kind) for kind in ("gpus", "cpus"))
    left = time_left(run, span[1].device_hours if span else None, span)
    return Held(run.pk, run.project_id, run.name, run.state in WAITING, gpus, cpus, left)


def _amount(resources: dict, kind: str) -> int:
    """GPUs or CPU cores; shared ones once."""
    parts = [int(resources.get(f"{part}_{kind}") or 0) for part in ("generator", "trainer")]
    return max(parts) if resources.get("shared") else sum(parts)


def asked(resources: dict) -> tuple[int, int]:
    """(GPUs, CPU cores) of a `resources` section."""
    return _amount(resources, "gpus"), _amount(resources, "cpus")


def waiting_of(project: Project) -> list[Run]:
    """The project's runs that wait, oldest first."""
    return list(
        Run.objects.filter(project=project, origin=Run.Origin.LAUNCHED, state__in=WAITING)
        .select_related("revision__recipe")
        .defer("config", "revision__config")
        .order_by("created_at")[:MOST_READ]
    )
