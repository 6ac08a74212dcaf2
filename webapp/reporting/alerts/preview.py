"""The dry run of a rule that is being written: which runs it watches, and when it would have fired. Stores nothing.

A rule tried out: a test goes where the rule would send, for real.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches

from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from headroom.adapters.naming import names_for
from webapp.base.errors import Conflict
from webapp.identity.accounts.models import Project, User
from webapp.record.runs.filtering import compile_filter
from webapp.record.runs.models import Run, Series
from webapp.record.runs.states import ACTIVE
from webapp.reporting.alerts import channels, rules
from webapp.reporting.alerts.conditions import Condition, MetricCondition
from webapp.reporting.alerts.events import Event, RunData, events_of
from webapp.reporting.alerts.models import Notice

PAST = timedelta(days=7)
MOST_RUNS = 60
SECONDS = 2.0
PAGE = "page"


@dataclass(frozen=True)
class Hit:
    """When it would have fired, for which run; `muted`: within the cooldown of an earlier one."""

    run: Run
    event: Event
    muted: bool


@dataclass(frozen=True)
class Preview:
    """watched, unfinished: runs that pass the filter; looked, active: of those that changed within PAST, how many were
    looked at, and how many there are. hits: newest first."""

    watched: int
    unfinished: int
    looked: int
    active: int
    hits: list[Hit] = field(default_factory=list)
    note: str = ""


def preview(
    *, project: Project, user: User | None, condition: Condition, runs: str, cooldown_minutes: int = 0,
    now: datetime | None = None,
) -> Preview:  # fmt: skip
    """Of the runs that changed within PAST the newest ones, as far as time allows. Raises FilterError."""
    now = now or timezone.now()
    since, until = now - PAST, time.monotonic() + SECONDS
    watched = Run.objects.filter(compile_filter(runs, user=user).condition, project=project).distinct()
    recent = watched.filter(Q(heartbeat_at__gte=since) | Q(ended_at__gte=since) | Q(created_at__gte=since))
    chosen = list(recent.defer("config").order_by("-created_at", "id")[:MOST_RUNS])
    hits: list[Hit] = []
    looked = 0
    for run in chosen:
        hits += _hits(run, condition, since, now, timedelta(minutes=cooldown_minutes))
        looked += 1
        if time.monotonic() > until:
            break
    return Preview(
        watched.count(), watched.filter(state__in=ACTIVE).count(), looked, recent.count(),
        sorted(hits, key=lambda hit: hit.event.at, reverse=True), _note(project, condition),
    )  # fmt: skip


def _hits(
    run: Run, condition: Condition, since: datetime, now: datetime, cooldown: timedelta
) -> Iterator[Hit]:
    last: datetime | None = None
    for event in events_of(condition, RunData(run)):
        if since <= event.at <= now:
            muted = last is not None and event.at - last < cooldown
            last = last if muted else event.at
            yield Hit(run, event, muted)


def _note(project: Project, condition: Condition) -> str:
    """A metric that no run reports is allowed, for one may report it tomorrow; but it may be misspelt."""
    if not isinstance(condition, MetricCondition):
        return ""
    names = metric_names(project)
    if not set(names).isdisjoint(names_for(condition.metric)):
        return ""
    near = get_close_matches(condition.metric, names, n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    return (
        f"No run of this project reports {condition.metric} so far; the rule waits for one that does.{hint}"
    )


def metric_names(project: Project, newest_runs: int = 30) -> list[str]:
    """Metrics that the project's newest runs report, by name."""
    newest = Run.objects.filter(project=project).order_by("-created_at", "id").values("pk")[:newest_runs]
    rows = (
        Series.objects.filter(run__in=newest).order_by("metric").values_list("metric", flat=True).distinct()
    )
    return list(rows[:500])


@dataclass(frozen=True)
class Tried:
    """What came of one way: "page", or a channel's name. error: why it did not go through; empty where it did."""

    way: str
    error: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.error


def try_rule(rule_id: int, *, user: User, project: Project) -> list[Tried]:
    """Send a test each way that the rule tells by; on the page it stands under the bell of who asked, nobody else's.

    Raises NotFound and Forbidden as a change of the rule would.
    """
    rule = rules.writable_rule(rule_id, user=user, project=project)
    found = []
    if rule.to_page:
        text = f"A test of the rule {rule.name}: this is where its alerts stand."
        Notice.objects.create(user=user, project=project, kind="alert", text=text, url=reverse("alerts"))
        found.append(Tried(PAGE))
    return found + [_through(channel.pk, channel.name, user, project) for channel in rule.channels.all()]


def _through(channel_id: int, name: str, user: User, project: Project) -> Tried:
    try:
        outcome = channels.send_test(channel_id, user=user, project=project)
    except Conflict as error:  # tested a moment ago
        return Tried(name, error.message)
    return Tried(name, "" if outcome.ok else outcome.error or "It was not delivered.", outcome.seconds)
