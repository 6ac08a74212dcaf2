"""Ids of a click on their way through a real Celery worker, and into the job."""

import logging

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker

from observability import context
from tests.waiting import wait_until
from tests.worker.conftest import make_run
from tests.worker.fake_ray import FakeRay
from webapp import nudge
from webapp.runs.models import Dispatch
from worker import names, observing
from worker.dispatch import send_dispatches

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
        nudge.send(names.REFIT, "run1")

    wait_until(lambda: len(heard) == 2)
    assert [(ids["request_id"], ids["run"], ids["task"]) for ids in heard] == [(ID, "run1", names.REFIT)] * 2
    assert heard[0]["task_id"] != heard[1]["task_id"]


def test_what_came_from_no_click_gets_an_id_of_its_own(heard):
    nudge.producer(nudge.settings.CELERY_BROKER_URL).send_task(
        names.REFIT, args=("run1",), headers={"request_id": "?"}
    )

    wait_until(lambda: len(heard) == 2)
    assert context.is_request_id(heard[0]["request_id"]) and heard[0]["request_id"] == heard[1]["request_id"]


@pytest.mark.django_db
def test_the_job_and_the_workers_line_carry_the_click(ray: FakeRay, settings, tmp_path, caplog, monkeypatch):
    settings.HEADROOM_HOME, settings.HEADROOM_URL = tmp_path, "http://headroom.example"
    monkeypatch.setenv("HEADROOM_LOG_FORMAT", "json")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
    caplog.set_level(logging.INFO, "worker.dispatch")
    seen = []
    caplog.handler.addFilter(lambda record: seen.append((record.getMessage(), context.ids())) or True)
    with context.bound(request_id=ID):
        run = make_run()

    assert send_dispatches() == 1

    variables = ray.jobs[f"run-{run.pk}-a1"].submission["runtime_env"]["env_vars"]
    assert variables["HEADROOM_REQUEST_ID"] == ID and variables["HEADROOM_LOG_FORMAT"] == "json"
    assert "OTEL_EXPORTER_OTLP_HEADERS" not in variables and "secret" not in str(variables)
    assert dict(seen)[f"submit of run {run.pk}, attempt 1: handed over"] == {
        "request_id": ID,
        "run": run.pk,
        "attempt": "1",
    }


@pytest.mark.django_db
def test_a_row_without_a_click_gives_a_job_without_its_id(ray: FakeRay, settings, tmp_path):
    settings.HEADROOM_HOME, settings.HEADROOM_URL = tmp_path, "http://headroom.example"
    run = make_run()

    assert send_dispatches() == 1

    assert Dispatch.objects.get(run=run).request_id == ""
    assert "HEADROOM_REQUEST_ID" not in ray.jobs[f"run-{run.pk}-a1"].submission["runtime_env"]["env_vars"]
