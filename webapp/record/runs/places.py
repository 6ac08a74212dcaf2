"""What a project may take of the cluster: runs at work, share and quota; and the priority of its runs.

Also what waits for the cluster, and what would if it were launched now.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, Q, Sum
from django.utils import timezone

from training.schema import Recipe
from webapp.base.errors import Conflict, Forbidden, InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.permissions import Permission, may
from webapp.identity.audit.services import record, record_each
from webapp.record.runs.admission import reading
from webapp.record.runs.admission.acting import LATER, look
from webapp.record.runs.admission.parts import Why
from webapp.record.runs.models import Dispatch, ProjectQueue, Run, State, Summary
from webapp.record.runs.states import ACTIVE, WAITING

MOST_AT_WORK = 10_000
MOST_QUOTA_HOURS = 1e9
ROUNDING = 1e-9  # of the quota: 1 - 0.9 is a little less than 0.1
LEAST_SHARE, MOST_SHARE = 0.01, 1000.0
MOST_READ = 200
TAKES_PRIORITY = frozenset({State.DRAFT, State.QUEUED})  # what has not been handed over


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
    project: Project,
    *,
    most_at_work: int | None,
    quota_hours: float | None,
    user: User | None,
    steps_back: bool = False,
    share: float | None = None,
) -> ProjectQueue:
    """What the project may take from now on; None: as much as there is, or the share that it has. Runs that are at work
    go on. `steps_back`: they may be asked to give way to runs of higher priority.

    For another share a person must be an owner of the organisation: raises Forbidden without it, and InvalidInput
    (most_at_work, quota_hours, share).
    """
    if most_at_work is not None and not 1 <= most_at_work <= MOST_AT_WORK:
        raise InvalidInput("most_at_work", f"most_at_work must be from 1 to {MOST_AT_WORK:,}, or empty.")
    if quota_hours is not None and not 0 <= quota_hours <= MOST_QUOTA_HOURS:
        raise InvalidInput("quota_hours", "quota_hours must be a number of device-hours from 0, or empty.")
    wanted: dict[str, Any] = {
        "most_at_work": most_at_work, "quota_hours": quota_hours, "steps_back": steps_back,
    }  # fmt: skip
    if share is not None and share != share_of(project):
        wanted["share"] = _checked_share(project, share, user)
    row, _ = ProjectQueue.objects.update_or_create(project=project, defaults=wanted)
    record(
        "project.queue_changed", actor=user, project=project, kind="project", key=project.slug, name=project.name,
        **wanted,
    )  # fmt: skip
    return row


def _checked_share(project: Project, share: float, user: User | None) -> float:
    if user is not None and not project.organisation.owners.filter(pk=user.pk).exists():
        raise Forbidden("Only an owner of the organisation can do this.")
    if not LEAST_SHARE <= share <= MOST_SHARE:
        raise InvalidInput("share", f"share must be from {LEAST_SHARE:g} to {MOST_SHARE:,.0f}.")
    return share


def share_of(project: Project) -> float:
    """Of the cluster, beside those of other projects."""
    return ProjectQueue.objects.filter(project=project).values_list("share", flat=True).first() or 1.0


# --- quota ----------------------------------------------------------------------------------------------------


def quota_of(project: Project) -> Quota | None:
    """None where the project has none. Three queries at most."""
    row = ProjectQueue.objects.filter(project=project).first()
    if row is None or row.quota_hours is None:
        return None
    launched = Q(run__origin=Run.Origin.LAUNCHED, run__project=project)
    spent = Summary.objects.filter(launched).aggregate(sum=Sum("used_hours"))["sum"] or 0.0
    unfinished = Run.objects.filter(project=project, origin=Run.Origin.LAUNCHED, state__in=ACTIVE)
    rows = unfinished.values_list("budget_hours", "summary__used_hours")
    promised = sum(max(0.0, (budget or 0.0) - (used or 0.0)) for budget, used in rows)
    return Quota(row.quota_hours, spent, promised)


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


# --- priority -------------------------------------------------------------------------------------------------


@transaction.atomic
def set_priority(run: Run, priority: int, *, user: User | None) -> Run:
    """Put a run that has not been handed over before or after others.

    Raises InvalidInput (priority), and Conflict where the run does not wait any more.
    """
    refused = set_priorities([run], priority, user=user, project=run.project)
    run.refresh_from_db()
    if refused:
        raise Conflict(refused[run.pk])
    return run


@transaction.atomic
def set_priorities(
    runs: Sequence[Run], priority: int, *, user: User | None, project: Project
) -> dict[str, str]:
    """`set_priority` of many runs of a project, in a few queries: those that do not wait any more -> why not."""
    check_priority(priority, user=user, project=project)
    held = Run.objects.select_for_update().filter(pk__in=[run.pk for run in runs]).order_by("pk")
    states = dict(held.values_list("pk", "state"))
    waiting = [(run.pk, run.name) for run in runs if states.get(run.pk) in TAKES_PRIORITY]
    Run.objects.filter(pk__in=[pk for pk, _ in waiting]).update(priority=priority, version=F("version") + 1)
    record_each(
        "run.priority_changed", actor=user, project=project, kind="run", things=waiting,
        priority=Run.Priority(priority).label,
    )  # fmt: skip
    return {
        run.pk: f"This run is {states.get(run.pk, run.state)}; its priority decides only while it is queued."
        for run in runs
        if states.get(run.pk) not in TAKES_PRIORITY
    }


def check_priority(priority: int, *, user: User | None, project: Project) -> None:
    """Raises InvalidInput (priority), also for a person who is no admin of the project and wants it to be high: that
    goes before the runs of all projects."""
    if isinstance(priority, bool) or priority not in Run.Priority.values:
        raise InvalidInput("priority", "priority must be low, normal or high.")
    if priority == Run.Priority.HIGH and user is not None and not may(user, project, Permission.ADMIN):
        raise InvalidInput("priority", "The priority high is for admins of the project.")


@dataclass(frozen=True)
class Prospect:
    """Of launches: how many are `handed_over` at once, and what the first of the others would wait for; `in_vain`: the
    whole cluster could not hold it. `undelivered`: why the newest hand-over to Ray failed, if one is tried again."""

    handed_over: int
    waits: str = ""
    in_vain: bool = False
    undelivered: str = ""


def prospect(project: Project, recipe: Recipe, *, runs: int, priority: int) -> Prospect:
    """Of so many launches of the recipe now. The number of queries does not grow with the queue."""
    now = timezone.now()
    new = [reading.would_be(project.pk, recipe, priority, f"new {number}", now) for number in range(runs)]
    names = [row.queued.run for row in new]
    outcome = look([*reading.due_submissions(Q(done_at=None)), *new], now)
    handed_over = sum(name in outcome.decision.start for name in names)
    sentences = outcome.sentences()
    waits = next((sentences[name] for name in names if name in sentences), "")
    reasons = {wait.run.run: wait.why for wait in outcome.decision.waits}
    in_vain = any(reasons.get(name) == Why.TOO_LARGE for name in names)
    failing = Dispatch.objects.filter(done_at=None).exclude(error="").order_by("-id")
    undelivered = failing.values_list("error", flat=True).first() or ""
    return Prospect(handed_over, waits or (LATER if handed_over < runs else ""), in_vain, undelivered)


def waiting_of(project: Project) -> list[Run]:
    """The project's runs that wait, higher priorities first, then the oldest."""
    return list(
        Run.objects.filter(project=project, origin=Run.Origin.LAUNCHED, state__in=WAITING)
        .select_related("revision__recipe")
        .defer("config", "revision__config")
        .order_by("-priority", "created_at")[:MOST_READ]
    )
