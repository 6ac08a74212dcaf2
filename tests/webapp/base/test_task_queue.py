"""Hints to the worker: sent after the commit, and a broker that is away costs a second at most."""

import socket
import time

import pytest

from webapp.base import task_queue


@pytest.fixture
def dead_broker(settings):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{port}/0"


@pytest.mark.django_db
def test_a_dead_broker_is_logged_and_not_raised(dead_broker, caplog, django_capture_on_commit_callbacks):
    started = time.monotonic()

    with django_capture_on_commit_callbacks(execute=True):
        task_queue.send("worker.tasks.dispatch", "abc")

    assert "the broker did not take worker.tasks.dispatch" in caplog.text
    assert time.monotonic() - started < 3


@pytest.mark.django_db
def test_without_a_broker_nothing_happens(settings, caplog, django_capture_on_commit_callbacks):
    settings.CELERY_BROKER_URL = None

    with django_capture_on_commit_callbacks(execute=True) as callbacks:
        task_queue.send("worker.tasks.dispatch", "abc")

    assert len(callbacks) == 1
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.django_db
def test_nothing_is_sent_before_the_commit(dead_broker, caplog, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks():
        task_queue.send("worker.tasks.dispatch", "abc")

    assert caplog.text == ""
