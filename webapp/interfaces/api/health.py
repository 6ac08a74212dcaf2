"""GET /healthz: whether database, broker, worker and Ray answer, each asked with a timeout, all at the same time; and
whether beat does: it cannot be asked, but its rounds are written down.

Three addresses below it answer one question each: `live` (this process answers), `ready` (the database does, too: send
people here) and `background` (broker, worker, beat and Ray do their part). Pages are served while the last is late.

/api/v1/status: how the installation is. /healthz is for load balancers; this says what waits, and why.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime
from typing import Any, cast

import httpx
import redis
from django.conf import settings
from django.db import connections
from django.http import Http404, HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from ninja import Field, Router, Schema

from stack import environment
from stack.outside import ray_headers, trusted
from webapp.base import task_queue
from webapp.identity.accounts.models import Role
from webapp.interfaces.api.auth import READ_HEAVY, ApiRequest
from webapp.interfaces.api.derived import fields_of
from webapp.record.health.models import ClusterSeen, LastRound, WorkerSeen
from webapp.record.health.patience import missing_migrations
from webapp.reporting.status import status_now
from webapp.reporting.troubles import ROUND_LATE, span_words, status_payload

OK, NOT_CONFIGURED = "ok", "not configured"
router = Router(tags=["status"])
WELL = (OK, NOT_CONFIGURED)
DEGRADED, FAILING = "degraded", "failing"
PART_SECONDS = 0.9
ALL_SECONDS = 1.0
_is_complete = False  # the tables of the database are those of this code
_askers = ThreadPoolExecutor(max_workers=8, thread_name_prefix="healthz")


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """{"status": "ok", "database": "ok", ...}: 503 ("failing") where the database does not answer; 200 with "degraded"
    where another part does not that is configured."""
    answers = _ask(CHECKS)
    is_well = all(answer in WELL for answer in answers.values())
    is_ready = answers["database"] == OK
    status = OK if is_well else DEGRADED if is_ready else FAILING
    return JsonResponse({"status": status} | answers, status=200 if is_ready else 503)


@require_safe
def healthz_of(request: HttpRequest, question: str) -> JsonResponse:
    """One of QUESTIONS: 200 with what is asked for, or 503 where a part of it does not answer."""
    if question not in QUESTIONS:
        raise Http404("no such question")
    answers = _ask({name: CHECKS[name] for name in QUESTIONS[question]})
    is_well = all(answer in WELL for answer in answers.values())
    return JsonResponse({"status": OK if is_well else FAILING} | answers, status=200 if is_well else 503)


def _ask(checks: Mapping[str, Callable[[], str]]) -> dict[str, str]:
    asked = {name: _askers.submit(check) for name, check in checks.items()}
    wait(asked.values(), timeout=ALL_SECONDS)
    return {
        name: future.result() if future.done() else f"no answer within {ALL_SECONDS:g} s"
        for name, future in asked.items()
    }


def _guarded(check: Callable[[], str]) -> Callable[[], str]:
    """The kind of error, never its text: it may hold addresses and passwords."""

    def ask() -> str:
        try:
            return check()
        except Exception as error:  # any failure is an answer
            return f"does not answer ({type(error).__name__})"

    return ask


@_guarded
def database() -> str:
    connection = connections["default"]
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return _schema()
    finally:
        connection.close()


def _schema() -> str:
    """Asked until it is complete: a server that starts before the migrations have run is not ready."""
    global _is_complete
    if not _is_complete:
        if lacking := len(missing_migrations()):
            return f"lacks {lacking} {'migration' if lacking == 1 else 'migrations'} of this code"
        _is_complete = True
    return OK


@_guarded
def broker() -> str:
    if not settings.CELERY_BROKER_URL:
        return NOT_CONFIGURED
    seconds = PART_SECONDS
    with redis.Redis.from_url(
        settings.CELERY_BROKER_URL, socket_timeout=seconds, socket_connect_timeout=seconds
    ) as client:
        client.ping()
    return OK


@_guarded
def worker() -> str:
    if not settings.CELERY_BROKER_URL:
        return NOT_CONFIGURED
    control = task_queue.producer(settings.CELERY_BROKER_URL).control
    return OK if control.inspect(timeout=PART_SECONDS, limit=1).ping() else "does not answer"


@_guarded
def beat() -> str:
    if not settings.CELERY_BROKER_URL:
        return NOT_CONFIGURED
    try:
        last = LastRound.objects.first()
    finally:
        connections["default"].close()
    return of_round(last)


def of_round(last: LastRound | None) -> str:
    """Whether the newest round of reconciliation is young enough, or what is wrong with it."""
    if last is None:
        return "no round of reconciliation yet"
    age = last.age(timezone.now())
    return OK if age <= ROUND_LATE else f"no round of reconciliation for {span_words(age)}"


@_guarded
def ray() -> str:
    address = environment.services().ray_address  # read anew: the supervisor may have started Ray elsewhere
    if not address:
        return NOT_CONFIGURED
    url = address.rstrip("/") if "://" in address else f"http://{address}"
    response = httpx.get(f"{url}/api/version", headers=ray_headers(), timeout=PART_SECONDS, verify=trusted())
    return OK if response.is_success else f"answers with HTTP {response.status_code}"


CHECKS: dict[str, Callable[[], str]] = {
    "database": database,
    "broker": broker,
    "worker": worker,
    "beat": beat,
    "ray": ray,
}
QUESTIONS = {"live": (), "ready": ("database",), "background": ("broker", "worker", "beat", "ray")}


class TroubleOut(Schema):
    bad: bool = Field(description="Runs do not start or do not go on; else something to look at.")
    text: str


class BrokerOut(Schema):
    configured: bool
    answers: bool
    queued: int | None = Field(description="Hints that no worker has taken yet.")


class UnsentOut(Schema):
    count: int
    oldest_seconds: float | None


@fields_of(WorkerSeen, "name alive version other_version started_at seen_at")
class WorkerOut(Schema):
    name: str = Field(description="Host and process for admins, else a number.")
    alive: bool
    other_version: bool = Field(description="It runs other code than this web server.")


@fields_of(LastRound, "began_at seconds failures")
class RoundOut(Schema):
    failures: dict[str, str]


class NodeOut(Schema):
    id: str
    address: str | None = Field(None, description="For admins.")
    alive: bool
    is_head: bool
    cpus: int
    gpus: int


@fields_of(ClusterSeen, "asked_at seen_at answers nodes cpus gpus")
class ClusterOut(Schema):
    answers: bool
    nodes: list[NodeOut] = Field(description="As they were at seen_at.")
    cpus: int
    gpus: int


class DiskOut(Schema):
    free: int
    total: int
    least_free: int = Field(description="Below it nothing is launched.")
    low: bool


class StatusOut(Schema):
    at: datetime
    healthy: bool
    troubles: list[TroubleOut]
    release: str = Field(description="Headroom's version, of the web server.")
    version: str = Field(description="A digest of the code that the web server runs.")
    runs: dict[str, int] = Field(description="Launched ones that are waiting, starting and running.")
    benchmarks: dict[str, int] = Field(description="Of checkpoints, which wait in the same queue; the same.")
    unsent: dict[str, UnsentOut]
    oldest_unsent_seconds: float | None
    broker: BrokerOut
    workers: list[WorkerOut]
    reconciliation: RoundOut | None
    cluster: ClusterOut | None
    database_bytes: int
    disk: DiskOut | None


@router.get(
    "/status",
    auth=READ_HEAVY,
    response=StatusOut,
    summary="How the installation is",
    operation_id="webapp_api_status_get_status",
)
def get_status(request: HttpRequest) -> dict[str, Any]:
    """Counts are of all projects; addresses are for tokens of admins."""
    is_admin = cast(ApiRequest, request).auth.role == Role.ADMIN
    return status_payload(status_now(), is_admin=is_admin)
