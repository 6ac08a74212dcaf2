"""How the installation is, as /status and the API say it. PostgreSQL is asked; the broker with a time-out; Ray not at
all, but by the worker, which writes down what it saw."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import redis
from django.conf import settings
from django.db import connection
from django.db.models import Case, Count, Min, Q, QuerySet, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from headroom.version import __version__
from webapp.base.claims import is_free
from webapp.base.disk import Disk, code_version, disk_now
from webapp.record.evaluations import models as evaluations
from webapp.record.health.models import ClusterSeen, LastRound, WorkerSeen
from webapp.record.runs.models import Dispatch, Run, State
from webapp.record.runs.states import ACTIVE, PHASES
from webapp.reporting.alerts.models import Delivery

BROKER_SECONDS = 0.5
ALIVE_FOR = timedelta(seconds=40)  # a worker speaks every ten seconds
CELERY_QUEUE = "celery"
_askers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="status")


@dataclass(frozen=True)
class Waiting:
    """Things that somebody else must take: how many, and since when the oldest waits."""

    count: int
    oldest: datetime | None = None


@dataclass(frozen=True)
class Broker:
    """`queued`: hints that no worker has taken yet; None where it does not answer (`error`), or there is none."""

    is_configured: bool
    queued: int | None = None
    error: str = ""


@dataclass(frozen=True)
class Status:
    """Everything, at `at`."""

    at: datetime
    release: str  # of the web server: Headroom's own number
    version: str  # of its code
    runs: Mapping[str, int]  # launched ones that have not ended: phase -> how many
    benchmarks: Mapping[str, int]  # of checkpoints, in the same queue
    dispatches: Waiting
    dispatch_error: str
    alerts: Waiting
    refits: Waiting
    judgements: Waiting
    broker: Broker
    workers: list[
        Any
    ]  # `WorkerSeen`; is_alive: it spoke lately; is_other: it runs other code than this web server
    last_round: LastRound | None
    cluster: ClusterSeen | None
    database_bytes: int
    disk: Disk | None


def status_now() -> Status:
    """A constant number of queries, and at most a second for what does not answer."""
    now = timezone.now()
    asked = _askers.submit(_broker)
    failing = Dispatch.objects.filter(done_at=None).exclude(error="").order_by("-id")
    phases = {phase: Count("pk", filter=Q(state__in=states)) for phase, states in PHASES.items()}
    spoke_lately = Q(seen_at__gt=now - ALIVE_FOR)
    benchmarks = {phase: Count("pk", filter=of_it) for phase, of_it in evaluations.PHASES.items()}
    return Status(
        at=now,
        release=__version__,
        version=code_version(),
        runs=Run.objects.filter(origin=Run.Origin.LAUNCHED, state__in=ACTIVE).aggregate(**phases),
        benchmarks=evaluations.Evaluation.objects.filter(evaluations.OPEN).aggregate(**benchmarks),
        dispatches=_waiting(_undelivered(now), "due_at"),
        dispatch_error=failing.values_list("error", flat=True).first() or "",
        alerts=_waiting(Delivery.objects.filter(state=Delivery.State.WAITING, next_at__lte=now), "next_at"),
        **_wishes(),
        workers=list(WorkerSeen.objects.annotate(is_alive=spoke_lately, is_other=~Q(version=code_version()))),
        last_round=LastRound.objects.first(),
        cluster=ClusterSeen.objects.first(),
        database_bytes=_database_bytes(),
        disk=disk_now(),
        broker=_answer(asked),
    )


def _answer(asked: Future[Broker]) -> Broker:
    seconds = 2 * BROKER_SECONDS
    try:
        return asked.result(seconds)
    except TooLate:
        return Broker(True, error=f"does not answer within {seconds:g} s")


def _undelivered(now: datetime) -> QuerySet[Dispatch]:
    """Hand-overs that a worker should have made, each with `due_at`: those that failed, and those that are due. What
    waits on purpose, in the queue or for the time of its retry, is no trouble."""
    in_queue = Q(kind=Dispatch.Kind.SUBMIT, run__state=State.QUEUED, error="") & ~Q(run__state_reason="")
    rows = Dispatch.objects.filter(done_at=None).exclude(in_queue)
    since = Case(When(~Q(error=""), then="created_at"), default=Coalesce("claimed_until", "created_at"))
    return rows.filter(is_free(now) | ~Q(error="")).annotate(due_at=since)


def _waiting(rows: Any, since: str) -> Waiting:
    found = rows.aggregate(number=Count("pk"), oldest=Min(since))
    return Waiting(found["number"], found["oldest"])


def _wishes() -> dict[str, Waiting]:
    """Runs that wait for a refit, or to be judged. One query."""
    refit, judge = Q(refit_wanted_at__isnull=False), Q(alarms_wanted_at__isnull=False)
    found = Run.objects.filter(refit | judge).aggregate(
        refits=Count("pk", filter=refit), refit_since=Min("refit_wanted_at"),
        judgements=Count("pk", filter=judge), judge_since=Min("alarms_wanted_at"),
    )  # fmt: skip
    return {
        "refits": Waiting(found["refits"], found["refit_since"]),
        "judgements": Waiting(found["judgements"], found["judge_since"]),
    }


def _broker() -> Broker:
    """The kind of an error, never its text: that may hold addresses and passwords."""
    if not (url := settings.CELERY_BROKER_URL):
        return Broker(False)
    try:
        with redis.Redis.from_url(
            url, socket_timeout=BROKER_SECONDS, socket_connect_timeout=BROKER_SECONDS
        ) as client:
            return Broker(True, int(cast(Any, client).llen(CELERY_QUEUE)))
    except (redis.RedisError, OSError) as error:
        return Broker(True, error=f"does not answer ({type(error).__name__})")


def _database_bytes() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])
