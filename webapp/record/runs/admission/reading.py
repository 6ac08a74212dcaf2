"""What a decision on the queue needs, read in a number of queries that grows with neither runs nor projects at work."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import F, Q, QuerySet, Sum, Window
from django.db.models.fields.json import KT
from django.db.models.functions import RowNumber
from django.utils import timezone

from training.bundles import all_bundles
from training.schema import Recipe, Resources
from webapp.record.health.models import ClusterSeen
from webapp.record.runs.admission.deciding import LOOKED_AT, in_order
from webapp.record.runs.admission.parts import AtWork, Bundles, Cluster, Holding, Queued, Share, Span
from webapp.record.runs.models import (
    Attempt,
    Dispatch,
    ProjectQueue,
    Run,
    State,
    Summary,
    submission_id_of,
)
from webapp.record.runs.pace import longest_overhead, time_left
from webapp.record.runs.selectors import span_of_runs
from webapp.record.runs.states import AT_WORK, ENDED

SIGHT_HOLDS = timedelta(seconds=60)  # longer ago than that, nothing is known of the cluster
USE_COUNTS = timedelta(days=1)  # what a project used before does not count against its share
STEPS_BACK_EVERY = timedelta(minutes=30)  # a run steps back at most once in that time
STOP = Span(0.0, 1 / 60)  # of a run that is stopping: its driver has 30 s
HOUR = 3600.0
RESOURCES, MAX_STEPS = KT("config__resources"), KT("config__budget__max_steps")


@dataclass(frozen=True)
class Needs:
    """What a stored `resources` section asks for; `devices`: what its device-hours count."""

    bundles: Bundles
    devices: int


@lru_cache(maxsize=4096)
def needs_of(resources: str | None) -> Needs:
    """Of its JSON. What this version cannot read asks for nothing: its hand-over will say why it is none."""
    try:
        known = Resources.model_validate(json.loads(resources or "{}"))
    except ValueError:
        return Needs((), 0)
    return Needs(tuple(all_bundles(known)), known.devices)


# --- cluster --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """The cluster, and of our jobs by submission id where they are and whether they wait inside Ray."""

    cluster: Cluster
    holds: Mapping[str, Holding]
    waiting: frozenset[str]

    def beside(self, at_work: Iterable[str]) -> Cluster:
        """With what others than these jobs hold. One query at most."""
        rest = self.holds.keys() - set(at_work)
        own = Attempt.objects.filter(submission_id__in=rest).values_list("submission_id", flat=True)
        ended = set(own) if rest else set()
        return replace(self.cluster, ended=self._of(ended), others=self._of(rest - ended))

    def _of(self, names: Iterable[str]) -> Holding:
        return [pair for name in names for pair in self.holds[name]]


def nodes_alive() -> list[dict[str, Any]]:
    """As a worker saw them lately; empty where none did, or none was alive."""
    return _alive(ClusterSeen.objects.first())


def _alive(seen: ClusterSeen | None) -> list[dict[str, Any]]:
    if seen is None or seen.seen_at is None or timezone.now() - seen.seen_at > SIGHT_HOLDS:
        return []
    return [node for node in seen.nodes if node["alive"]]


def cluster_seen() -> Seen:
    """One query."""
    seen = ClusterSeen.objects.first()
    nodes = _alive(seen)
    if seen is None or not nodes:
        return Seen(Cluster(None, grows=settings.CLUSTER_GROWS), {}, frozenset())
    numbers = {node["id"]: number for number, node in enumerate(nodes)}

    def holding(rows: Iterable[tuple[str, float, float]]) -> Holding:
        return [(numbers[node], {"CPU": cpus, "GPU": gpus}) for node, cpus, gpus in rows if node in numbers]

    amounts = [{"CPU": float(node["cpus"]), "GPU": float(node["gpus"])} for node in nodes]
    placed = {name: holding(rows) for name, rows in seen.groups.get("placed", {}).items()}
    return Seen(
        Cluster(amounts, grows=settings.CLUSTER_GROWS), placed, frozenset(seen.groups.get("waiting", ()))
    )


# --- runs -----------------------------------------------------------------------------------------------------


def runs_at_work() -> list[Run]:
    """Handed over and not ended. One query."""
    runs = Run.objects.filter(origin=Run.Origin.LAUNCHED, state__in=AT_WORK).defer("config")
    return list(runs.annotate(resources=RESOURCES, max_steps=MAX_STEPS, used_hours=F("summary__used_hours")))


def at_work(runs: Sequence[Run], seen: Seen) -> list[AtWork]:
    """Three queries, and two for a project whose pace is not remembered."""
    spans = span_of_runs([run.pk for run in runs if run.state == State.RUNNING])
    willing = _willing(runs)
    return [_at_work(run, seen, _left(run, spans.get(run.pk)), run.pk in willing) for run in runs]


def _at_work(run: Any, seen: Seen, left: Span, may_step_back: bool) -> AtWork:
    job = submission_id_of(run.pk, run.attempt_number)
    return AtWork(
        run=run.pk,
        project=run.project_id,
        priority=run.priority,
        bundles=needs_of(run.resources).bundles,
        holds=seen.holds.get(job),
        left=left,
        waits_in_ray=job in seen.waiting,
        has_begun=run.state in (State.RUNNING, State.STOPPING),
        is_stopping=run.state == State.STOPPING,
        may_step_back=may_step_back,
        began=run.started_at,
    )


def _left(run: Any, span: Any) -> Span:
    """Until its budget is spent: without evaluations at least, at the pace of its own or of earlier runs at most."""
    if run.state == State.STOPPING:
        return STOP
    devices = needs_of(run.resources).devices
    lasts = _lasts(run.project_id, run.budget_hours, run.used_hours, devices, run.max_steps)
    measured = time_left(run, run.used_hours, span)
    return lasts if measured is None else Span(lasts.least, measured.total_seconds() / HOUR)


def _lasts(
    project: int, budget: float | None, used: float | None, devices: int, max_steps: str | None
) -> Span:
    """A run that also ends at a number of steps may end at any time before."""
    if not devices or budget is None:
        return Span()
    training = max(0.0, budget - (used or 0.0)) / devices
    overhead = longest_overhead(project)
    return Span(0.0 if max_steps else training, None if overhead is None else training * overhead)


def _willing(runs: Sequence[Run]) -> set[str]:
    """Those that may be asked to step back: their projects let them, and they have not done so lately. Two queries."""
    projects = ProjectQueue.objects.filter(steps_back=True, project__in={run.project_id for run in runs})
    let = set(projects.values_list("project_id", flat=True))
    able = {run.pk for run in runs if run.project_id in let}
    lately = Attempt.objects.filter(
        run__in=able, failure=Attempt.Failure.STEPPED_BACK, ended_at__gt=timezone.now() - STEPS_BACK_EVERY
    )
    return able - set(lately.values_list("run_id", flat=True)) if able else able


# --- queue ----------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A submission that is due: its dispatch and attempt beside what the decision needs."""

    dispatch: int
    attempt: int
    reason: str
    queued: Queued


def due_submissions(free: Q) -> list[Row]:
    """Of queued runs, of each project and priority the oldest LOOKED_AT; `free`: dispatch rows that nobody has claimed.
    One query."""
    place = Window(
        RowNumber(), partition_by=[F("run__project"), F("run__priority")], order_by=["run__created_at", "pk"]
    )
    rows = due(free).annotate(place=place).filter(place__lte=LOOKED_AT)
    names = (
        "pk", "attempt", "run__state_reason", "run_id", "run__project_id", "run__priority", "run__created_at",
        "created_at", "run__budget_hours", "run__summary__used_hours",
    )  # fmt: skip
    return [
        Row(pk, attempt, reason, Queued(*run, max(0.0, (budget or 0.0) - (used or 0.0))))  # type: ignore[call-arg]
        for pk, attempt, reason, *run, budget, used in rows.values_list(*names)
    ]


def due(free: Q) -> QuerySet[Dispatch]:
    """All of them."""
    attempt = Q(kind=Dispatch.Kind.SUBMIT, run__state=State.QUEUED, attempt=F("run__attempt_number"))
    return Dispatch.objects.filter(free & attempt)


def queue_of(waiting: Iterable[Queued], shares: Mapping[int, Share], now: datetime) -> list[Queued]:
    """The first LOOKED_AT in order, with what runs ask for. One query, and two for a project whose pace is not
    remembered."""
    ordered = in_order(waiting, shares, now, most=LOOKED_AT)
    asked = Run.objects.filter(pk__in=[run.run for run in ordered]).values_list("pk", RESOURCES, MAX_STEPS)
    known = {pk: (needs_of(resources), max_steps) for pk, resources, max_steps in asked}
    return [_with_needs(run, *known[run.run]) if run.run in known else run for run in ordered]


def _with_needs(run: Queued, needs: Needs, max_steps: str | None) -> Queued:
    lasts = _lasts(run.project, run.hours, 0.0, needs.devices, max_steps)
    return run._replace(bundles=needs.bundles, lasts=lasts)


def would_be(project: int, recipe: Recipe, priority: int, name: str, now: datetime) -> Row:
    """The submission of a run that nobody has launched."""
    hours, max_steps = recipe.budget.device_hours, str(recipe.budget.max_steps or "")
    needs = Needs(tuple(all_bundles(recipe.resources)), recipe.resources.devices)
    return Row(0, 1, "", _with_needs(Queued(name, project, priority, now, now, hours), needs, max_steps))


def shares_of(queued: Iterable[int], runs: Sequence[Any]) -> dict[int, Share]:
    """Of projects with queued runs. Two queries at most."""
    projects = set(queued)
    known = {row.project_id: row for row in ProjectQueue.objects.filter(project__in=projects)}
    used = _used_lately() if len(projects) > 1 else {}
    taken: dict[int, int] = {}
    for run in runs:
        taken[run.project_id] = taken.get(run.project_id, 0) + 1
        spent = max(run.budget_hours or 0.0, run.used_hours or 0.0)
        used[run.project_id] = used.get(run.project_id, 0.0) + spent
    return {
        project: Share(
            weight=row.share if (row := known.get(project)) else 1.0,
            used=used.get(project, 0.0),
            at_work=taken.get(project, 0),
            most_at_work=row.most_at_work if row else None,
        )
        for project in projects
    }


def _used_lately() -> dict[int, float]:
    """Project -> device-hours of its launched runs that ended within USE_COUNTS. Asked anew each time: what a run has
    used counts when its place is given away."""
    ended = Summary.objects.filter(
        run__origin=Run.Origin.LAUNCHED, run__state__in=ENDED, run__ended_at__gt=timezone.now() - USE_COUNTS
    )
    sums = ended.values("run__project").annotate(hours=Sum("used_hours"))
    return {row["run__project"]: row["hours"] or 0.0 for row in sums}
