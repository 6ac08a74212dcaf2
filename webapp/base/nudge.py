"""Hints to the worker through the broker. A hint may be lost: the worker's beat finds the same work again."""

import logging
from functools import lru_cache, partial

from celery import Celery
from django.conf import settings
from django.db import transaction

from webapp.base import origin

log = logging.getLogger(__name__)
BROKER_SECONDS = 1.0


def send(task: str, *args: str) -> None:
    """Send the task of this name (see `worker.names`) once the running transaction has committed. Never raises.

    The ids of the click go with it, as headers of the message.
    """
    transaction.on_commit(partial(_send_now, task, args, origin.headers()), robust=True)


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
    app.conf.broker_connection_timeout = BROKER_SECONDS
    app.conf.broker_connection_retry_on_startup = False
    app.conf.broker_transport_options = {
        "socket_connect_timeout": BROKER_SECONDS,
        "socket_timeout": BROKER_SECONDS,
        "max_retries": 0,
        "retry_on_timeout": False,
    }
    return app
