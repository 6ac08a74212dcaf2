"""GET /healthz: whether database, broker, worker and Ray answer, each asked with a timeout, all at the same time; and
whether beat does: it cannot be asked, but its rounds are written down.

Three addresses below it answer one question each: `live` (this process answers), `ready` (the database does, too: send
people here) and `background` (broker, worker, beat and Ray do their part). Pages are served while the last is late.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait

import httpx
import redis
from django.conf import settings
from django.db import connections
from django.http import Http404, HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from stack import environment
from stack.outside import ray_headers
from webapp.base import nudge
from webapp.record.health.models import LastRound
from webapp.record.health.patience import missing_migrations
from webapp.reporting.status.troubles import ROUND_LATE, span_words

OK, NOT_CONFIGURED = "ok", "not configured"
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
        lacking = len(missing_migrations())
        if lacking:
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
    control = nudge.producer(settings.CELERY_BROKER_URL).control
    return OK if control.inspect(timeout=PART_SECONDS, limit=1).ping() else "does not answer"


@_guarded
def beat() -> str:
    if not settings.CELERY_BROKER_URL:
        return NOT_CONFIGURED
    try:
        last = LastRound.objects.first()
    finally:
        connections["default"].close()
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
    response = httpx.get(f"{url}/api/version", headers=ray_headers(), timeout=PART_SECONDS)
    return OK if response.is_success else f"answers with HTTP {response.status_code}"


CHECKS: dict[str, Callable[[], str]] = {
    "database": database,
    "broker": broker,
    "worker": worker,
    "beat": beat,
    "ray": ray,
}
QUESTIONS = {"live": (), "ready": ("database",), "background": ("broker", "worker", "beat", "ray")}
