"""The places of a project on the cluster: how many of its runs may be at work, its quota, and what a run lacks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record
from webapp.record.health.models import ClusterSeen
from webapp.record.runs.models import Dispatch, ProjectQueue, Run, State, Summary
from webapp.record.runs.queue import asked
from webapp.record.runs.states import ACTIVE, AT_WORK

MOST_AT_WORK = 10_000
MOST_QUOTA_HOURS = 1e9
ROUNDING = 1e-9  # of the quota: 1 - 0.9 is a little less than 0.1
SIGHT_HOLDS = timedelta(seconds=60)  # longer ago than that, nothing is known of the cluster


@dataclass(frozen=True)
class Quota:
    """Device-hours of a project: what it may use, what its runs used, and what unfinished ones may still use."""

    hours: float
    spent: float
    promised: float

    @property
    def left(self) -> float:
        return max(0.0, self.hours - self.spent - self.promised)


# --- settings -------------------------------------------------------------------------------------------------


@transaction.atomic
def set_queue(
    project: Project, *, most_at_work: int | None, quota_hours: float | None, user: User | None
) -> ProjectQueue:
    """What the project may take from now on; None: as much as there is. Runs that are at work go on.

    Raises InvalidInput (most_at_work, quota_hours).
    """
    if most_at_work is not None and not 1 <= most_at_work <= MOST_AT_WORK:
        raise InvalidInput("most_at_work", f"most_at_work must be from 1 to {MOST_AT_WORK:,}, or empty.")
    if quota_hours is not None and not 0 <= quota_hours <= MOST_QUOTA_HOURS:
        raise InvalidInput("quota_hours", "quota_hours must be a number of device-hours from 0, or empty.")
    row, _ = ProjectQueue.objects.update_or_create(
        project=project, defaults={"most_at_work": most_at_work, "quota_hours": quota_hours}
    )
    record(
        "project.queue_changed", actor=user, project=project, kind="project", key=project.slug, name=project.name,
        most_at_work=most_at_work, quota_hours=quota_hours,
    )  # fmt: skip
    return row


# --- quota ----------------------------------------------------------------------------------------------------


def quota_of(project: Project) -> Quota | None:
    """None where the project has none. Two queries."""
    row = ProjectQueue.objects.filter(project=project, quota_hours__isnull=False).first()
    return None if row is None or row.quota_hours is None else _quota(project, row.quota_hours)


def _quota(project: Project, hours: float) -> Quota:
    launched = Q(run__origin=Run.Origin.LAUNCHED, run__project=project)
    spent = Summary.objects.filter(launched).aggregate(sum=Sum("used_hours"))["sum"] or 0.0
    unfinished = Run.objects.filter(project=project, origin=Run.Origin.LAUNCHED, state__in=ACTIVE)
    rows = unfinished.values_list("budget_hours", "summary__used_hours")
    promised = sum(max(0.0, (budget or 0.0) - (used or 0.0)) for budget, used in rows)
    return Quota(hours, spent, promised)


def beyond_quota(project: Project, hours: float) -> str:
    """Why the project cannot promise `hours` more, with the figures; empty where it can. Two queries."""
    quota = quota_of(project)
    if quota is None or hours <= quota.left + ROUNDING * quota.hours:
        return ""
    return (
        f"The project's quota has {quota.left:.4g} device-hours left, and this asks for {hours:.4g}: of "
        f"{quota.hours:.4g}, {quota.spent:.4g} are spent and {quota.promised:.4g} promised to unfinished runs."
    )


def check_quota(project: Project, hours: float) -> None:
    """Whether the project has `hours` left; called in the transaction that promises them, which then waits for others.

    Raises InvalidInput (budget_hours) with the figures.
    """
    ProjectQueue.objects.select_for_update().filter(project=project, quota_hours__isnull=False).first()
    if why := beyond_quota(project, hours):
        raise InvalidInput("budget_hours", why)


# --- places ---------------------------------------------------------------------------------------------------


def full_projects() -> dict[int, tuple[int, int]]:
    """Project -> (runs at work, most at work), of those that have no place left. One query."""
    at_work = Count(
        "project__runs", filter=Q(project__runs__state__in=AT_WORK, project__runs__origin=Run.Origin.LAUNCHED)
    )
    rows = ProjectQueue.objects.filter(most_at_work__isnull=False).annotate(at_work=at_work)
    full = rows.filter(at_work__gte=F("most_at_work"))
    return {row.pk: (row.at_work, row.most_at_work or 0) for row in full}


def submissions_without_a_place() -> Q:
    """Of dispatches: submissions of queued runs whose project is full. One query, made now."""
    return Q(run__project__in=list(full_projects()), kind=Dispatch.Kind.SUBMIT, run__state=State.QUEUED)


def has_place(dispatch: Dispatch, due: Q) -> bool:
    """Whether its project has a place for this submission before those that come first.

    Where the project has a limit, its row stays locked until the transaction ends, so that of two workers that ask
    at once the second counts what the first has taken.
    """
    project = dispatch.run.project_id
    queue = ProjectQueue.objects.select_for_update().filter(pk=project, most_at_work__isnull=False).first()
    if queue is None or queue.most_at_work is None:
        return True
    at_work = Run.objects.filter(project=project, origin=Run.Origin.LAUNCHED, state__in=AT_WORK)
    taken = at_work.exclude(pk=dispatch.run_id).count()
    return taken < queue.most_at_work and taken + _ahead(dispatch, due) < queue.most_at_work


def _ahead(dispatch: Dispatch, due: Q) -> int:
    """Queued runs of the project that come first: of a higher priority, or as high and older."""
    run = dispatch.run
    waiting = Dispatch.objects.filter(
        due, kind=Dispatch.Kind.SUBMIT, run__project=run.project_id, run__state=State.QUEUED
    ).exclude(pk=dispatch.pk)
    older = Q(run__priority=run.priority, run__created_at__lt=run.created_at)
    same_age = Q(run__priority=run.priority, run__created_at=run.created_at, run__lt=run.pk)
    return waiting.filter(Q(run__priority__gt=run.priority) | older | same_age).count()


TELL_WAITING = """
UPDATE runs_run AS r SET state_reason = w.reason, version = r.version + 1
FROM unnest(%(projects)s::bigint[], %(reasons)s::text[]) AS w(project_id, reason)
WHERE r.project_id = w.project_id AND r.state = 'queued' AND r.state_reason <> w.reason AND EXISTS (
    SELECT 1 FROM runs_dispatch AS d WHERE d.run_id = r.id AND d.kind = 'submit' AND d.done_at IS NULL
        AND (d.claimed_until IS NULL OR d.claimed_until < %(now)s))
"""


def tell_waiting() -> int:
    """Every queued run of a full project says that it waits for a place; how many say something new. Two queries."""
    full = full_projects()
    if not full:
        return 0
    reasons = [
        f"waits for a place in its project: {taken} of {most} at work" for taken, most in full.values()
    ]
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"projects": list(full), "reasons": reasons, "now": timezone.now()}
        cursor.execute(TELL_WAITING, values)
        return cursor.rowcount


# --- what the cluster has -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Devices:
    """Of all nodes that are alive, CPUs in cores."""

    gpus: int
    cpus: int


def devices() -> Devices | None:
    """What the cluster has; None where a worker has not seen it lately, or saw no node alive."""
    seen = ClusterSeen.objects.first()
    if seen is None or seen.seen_at is None or timezone.now() - seen.seen_at > SIGHT_HOLDS:
        return None
    alive = [node for node in seen.nodes if node["alive"]]
    if not alive:
        return None
    return Devices(sum(node["gpus"] for node in alive), sum(node["cpus"] for node in alive))


def lacks(run: Run, there: Devices | None) -> str:
    """What the run needs that the whole cluster does not have, in words; empty where it has it or nothing is known."""
    return "" if there is None else _short(run.config.get("resources"), there, "the cluster has {}")


def waits_for(run: Run) -> str:
    """What a run that was handed over waits for, because runs that report already hold it; empty once it reports.

    Its driver asks Ray for everything at once and waits. By what reconciliation last saw of the cluster.
    """
    return waits_of([run]).get(run.pk, "")


def waits_of(runs: Iterable[Run]) -> dict[str, str]:
    """Run -> what it waits for, as `waits_for`, of those that wait. At most three queries for any number."""
    handed_over = [
        run.pk
        for run in runs
        if run.origin == Run.Origin.LAUNCHED and run.state in (State.STARTING, State.RUNNING)
    ]
    there = devices() if handed_over else None
    if there is None:
        return {}
    reports = Q(summary__used_attempt=F("attempt_number"), summary__used_seq__gte=0)
    at_work = Run.objects.filter(reports, origin=Run.Origin.LAUNCHED, state__in=AT_WORK)
    holds = dict(at_work.values_list("pk", "config__resources"))
    held = [asked(each or {}) for each in holds.values()]
    gpus, cpus = (sum(each[kind] for each in held) for kind in (0, 1))
    free = Devices(max(0, there.gpus - gpus), max(0, there.cpus - cpus))
    silent = Run.objects.filter(pk__in=set(handed_over) - set(holds))
    needed = dict(silent.values_list("pk", "config__resources"))
    return {
        pk: f"waits for the cluster: {short}"
        for pk, resources in needed.items()
        if (short := _short(resources, free, "{} free"))
    }


def _short(resources: Mapping[str, Any] | None, there: Devices, words: str) -> str:
    """ "needs 2 GPUs, the cluster has 0": what is needed beyond that; empty where it is enough."""
    gpus, cpus = asked(dict(resources or {}))
    short = [
        f"{needed} {unit if needed == 1 else unit + 's'}, {words.format(has)}"
        for needed, has, unit in ((gpus, there.gpus, "GPU"), (cpus, there.cpus, "CPU core"))
        if needed > has
    ]
    return f"needs {' and '.join(short)}" if short else ""


# --- priority -------------------------------------------------------------------------------------------------


@transaction.atomic
def set_priority(run: Run, priority: int, *, user: User | None) -> Run:
    """Put a run that has not been handed over before or after others of its project.

    Raises InvalidInput (priority), and Conflict where the run
    does not wait any more.
    """
    check_priority(priority)
    waits = Run.objects.filter(pk=run.pk, state__in=(State.DRAFT, State.QUEUED))
    if not waits.update(priority=priority, version=F("version") + 1):
        run.refresh_from_db()
        raise Conflict(f"This run is {run.state}; its priority decides only while it is queued.")
    run.refresh_from_db()
    word = run.get_priority_display()
    record(
        "run.priority_changed",
        actor=user,
        project=run.project,
        kind="run",
        key=run.pk,
        name=run.name,
        priority=word,
    )
    return run


def check_priority(priority: int) -> None:
    """Raises InvalidInput (priority)."""
    if isinstance(priority, bool) or priority not in Run.Priority.values:
        raise InvalidInput("priority", "priority must be low, normal or high.")
