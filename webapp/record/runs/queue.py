"""What waits for the cluster and what holds it, over all projects: they share it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Any

from django.db.models.fields.json import KT

from training.bundles import Amounts, all_bundles, total
from training.schema import Resources
from webapp.identity.accounts.models import Project
from webapp.record.runs.admission.reading import needs_of
from webapp.record.runs.models import Dispatch, Point, Run, State
from webapp.record.runs.pace import time_left
from webapp.record.runs.selectors import span_of_runs
from webapp.record.runs.states import AT_WORK, WAITING

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
    """`waiting` and `working` are counts of all; `held` has the oldest MOST_READ of each, those at work first."""

    waiting: int
    working: int
    held: Sequence[Held]
    undelivered: str  # why the newest hand-over to Ray failed, where one is still tried again


def queue_now() -> Queue:
    """Five queries, whatever the size."""
    launched = (
        Run.objects.filter(origin=Run.Origin.LAUNCHED)
        .defer("config")
        .annotate(resources=KT("config__resources"))
    )
    working, waiting = launched.filter(state__in=AT_WORK), launched.filter(state__in=WAITING)
    rows = list(working.order_by("created_at")[:MOST_READ])
    spans = span_of_runs([run.pk for run in rows if run.state == State.RUNNING])
    rows += waiting.order_by("created_at")[:MOST_READ]
    held = [_held(run, spans.get(run.pk)) for run in rows]
    failing = Dispatch.objects.filter(done_at=None).exclude(error="").order_by("-id")
    undelivered = failing.values_list("error", flat=True).first() or ""
    return Queue(waiting.count(), working.count(), held, undelivered)


def _held(run: Any, span: tuple[Point, Point] | None) -> Held:
    gpus, cpus = _totals(needs_of(run.resources).bundles)
    left = time_left(run, span[1].device_hours if span else None, span)
    return Held(run.pk, run.project_id, run.name, run.state in WAITING, gpus, cpus, left)


def asked(resources: Resources) -> tuple[int, int]:
    """(GPUs, CPU cores) of all bundles of a run."""
    return _totals(all_bundles(resources))


def _totals(bundles: Sequence[Amounts]) -> tuple[int, int]:
    return ceil(total(bundles, "GPU")), ceil(total(bundles, "CPU"))


def waiting_of(project: Project) -> list[Run]:
    """The project's runs that wait, higher priorities first, then the oldest."""
    return list(
        Run.objects.filter(project=project, origin=Run.Origin.LAUNCHED, state__in=WAITING)
        .select_related("revision__recipe")
        .defer("config", "revision__config")
        .order_by("-priority", "created_at")[:MOST_READ]
    )
