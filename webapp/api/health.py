"""GET /healthz: whether database, broker, worker and Ray answer, each asked with a timeout, all at the same time; and
whether beat does: it cannot be asked, but its rounds are written down."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import httpx
import redis
from django.conf import settings
from django.db import connections
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from stack import environment
from stack.outside import ray_headers
from webapp import nudge
from webapp.health.models import LastRound
from webapp.health.schema import missing_migrations
from webapp.health.troubles import ROUND_LATE, span_words

OK, NOT_CONFIGURED = "ok", "not configured"
PART_SECONDS = 0.9
ALL_SECONDS = 1.0
_is_complete = False  # the tables of the database are those of this code
_askers = ThreadPoolExecutor(max_workers=8, thread_name_prefix="healthz")


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 with {"status": "ok", "database": "ok", ...}; 503 where a part that is configured does not answer."""
    asked = {name: _askers.submit(check) for name, check in CHECKS.items()}
    wait(asked.values(), timeout=ALL_SECONDS)
    answers = {
        name: future.result() if future.done() else f"no answer within {ALL_SECONDS:g} s"
        for name, future in asked.items()
    }
    healthy = all(answer in (OK, NOT_CONFIGURED) for answer in answers.values())
    body = {"status": OK if healthy else "failing"} | answers
    return JsonResponse(body, status=200 if healthy else 503)


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


CHECKS = {"database": database, "broker": broker, "worker": worker, "beat": beat, "ray": ray}
