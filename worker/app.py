"""The Celery application: `celery -A worker.app worker`, and once `celery -A worker.beat beat`."""

import logging
import os
from pathlib import Path
from typing import Any

import django
from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from observability.metrics_folder import own_folder

own_folder()  # of this process and the children that do its tasks
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")  # Django's, which import every page
django.setup()

from django.conf import settings  # noqa: E402 - needs the line above

from worker import names, observing  # noqa: E402
from worker.heartbeat import Heartbeat  # noqa: E402

RECONCILE_SECONDS = 2.0
CLEAN_UP_SECONDS = 60.0

for _chatty in ("celery.app.trace", "celery.worker.strategy", "celery.beat"):  # three lines a round
    logging.getLogger(_chatty).setLevel(logging.WARNING)

observing.install()

app = Celery("headroom", broker=settings.CELERY_BROKER_URL, include=["worker.tasks"])
app.conf.update(
    accept_content=["json"],
    task_serializer="json",
    task_ignore_result=True,
    task_acks_late=True,  # a task of a worker that died runs again: every task may be repeated
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_soft_time_limit=90,
    task_time_limit=120,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": 300
    },  # seconds until an unacknowledged task is given again
    worker_hijack_root_logger=False,  # Django's logging settings hold
    worker_cancel_long_running_tasks_on_connection_loss=True,
    timezone="UTC",
    beat_schedule={
        "reconcile": {
            "task": names.RECONCILE,
            "schedule": RECONCILE_SECONDS,
            "options": {"expires": RECONCILE_SECONDS},  # a late one is worth nothing: the next one follows
        },
        "clean-up": {
            "task": names.CLEAN_UP,
            "schedule": CLEAN_UP_SECONDS,
            "options": {"expires": CLEAN_UP_SECONDS},
        },
    },
)


@worker_ready.connect
def tell_supervisor(**_: Any) -> None:
    """The supervisor waits for this file."""
    if path := os.environ.get("HEADROOM_WORKER_READY_FILE"):
        Path(path).touch()


@worker_ready.connect
def begin_heartbeat(**_: Any) -> None:
    """From now on the status page knows this worker."""
    heartbeat = Heartbeat()
    heartbeat.start()
    worker_shutting_down.connect(lambda **_: heartbeat.stop(), weak=False)
