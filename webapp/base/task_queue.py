"""Hints to the worker through the broker. A hint may be lost: the worker's beat finds the same work again.

With them goes what a click hands on to whoever goes on with it, its request id and the span that it was in:
HTTP request -> header of the Celery message -> row of the outbox -> environment of the job
"""

import logging
from collections.abc import Mapping
from functools import lru_cache, partial

from celery import Celery
from django.conf import settings
from django.db import transaction

from observability import context, tracing

TRACE_HEADER = "traceparent"
MAX_TRACEPARENT = 55  # of W3C Trace Context, version 00
log = logging.getLogger(__name__)
BROKER_SECONDS = 1.0


def headers() -> dict[str, str]:
    """For a Celery message; empty where nothing is known."""
    return _known({"request_id": context.request_id(), TRACE_HEADER: tracing.traceparent()})


def columns() -> dict[str, str]:
    """For a row of the outbox, which a worker may take long after the message was lost."""
    return {"request_id": context.request_id(), "traceparent": tracing.traceparent()[:MAX_TRACEPARENT]}


def variables(request_id: str) -> dict[str, str]:
    """For a job: the ids of the row, and the span that hands it over."""
    return _known({context.REQUEST_VARIABLE: request_id, tracing.PARENT_VARIABLE: tracing.traceparent()})


def _known(found: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in found.items() if value}


def send(task: str, *args: str) -> None:
    """Send the task of this name (see `worker.names`) once the running transaction has committed. Never raises.

    The ids of the click go with it, as headers of the message.
    """
    transaction.on_commit(partial(_send_now, task, args, headers()), robust=True)


def _send_now(task: str, args: tuple[str, ...], headers: dict[str, str]) -> None:
    if not settings.CELERY_BROKER_URL:
        log.debug("no broker: %s%s waits for the worker's beat", task, args)
        return
    try:
        app = producer(settings.CELERY_BROKER_URL)
        app.send_task(task, args=args, retry=False, ignore_result=True, headers=headers)
    except Exception as error:  # whatever the broker does, the row is committed
        log.warning("the broker did not take %s%s (%s); the worker's beat will find it", task, args, error)


@lru_cache(maxsize=4)
def producer(broker_url: str) -> Celery:
    """A Celery application that only sends, and gives up quickly."""
    app = Celery("headroom", broker=broker_url, set_as_current=False)
    app.conf.update(
        broker_connection_timeout=BROKER_SECONDS,
        broker_connection_retry_on_startup=False,
        broker_transport_options={
            "socket_connect_timeout": BROKER_SECONDS,
            "socket_timeout": BROKER_SECONDS,
            "max_retries": 0,
            "retry_on_timeout": False,
        },
    )
    return app
