"""Ids of a click on their way through a real Celery worker, run by `test_observing.py` in a process of its own.

A worker inside another one's process shares Celery's state with whatever ran there before, and then heard nothing.
"""

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker

from observability import context
from tests.waiting import wait_until
from webapp.base import task_queue
from worker import names, observing

ID = "click-0123456789"


@pytest.fixture
def heard(with_broker, db):
    """What tasks of a real worker see: one that asks for another, as a refit does that comes back later."""
    seen = []
    app = Celery("headroom", broker=with_broker, set_as_current=False)
    app.conf.update(task_ignore_result=True, accept_content=["json"])

    @app.task(name=names.REFIT, shared=False)
    def refit(run_id):
        seen.append(context.ids())
        if len(seen) == 1:
            refit.apply_async(args=(run_id,))

    observing.install()
    with start_worker(app, perform_ping_check=False, pool="solo", loglevel="ERROR"):
        yield seen


def test_a_task_works_under_the_id_of_the_click_and_hands_it_on(heard, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True), context.bound(request_id=ID):
        task_queue.send(names.REFIT, "run1")

    wait_until(lambda: len(heard) == 2)
    assert [(ids["request_id"], ids["run"], ids["task"]) for ids in heard] == [(ID, "run1", names.REFIT)] * 2
    assert heard[0]["task_id"] != heard[1]["task_id"]


def test_what_came_from_no_click_gets_an_id_of_its_own(heard):
    task_queue.producer(task_queue.settings.CELERY_BROKER_URL).send_task(
        names.REFIT, args=("run1",), headers={"request_id": "?"}
    )

    wait_until(lambda: len(heard) == 2)
    assert context.is_request_id(heard[0]["request_id"]) and heard[0]["request_id"] == heard[1]["request_id"]
