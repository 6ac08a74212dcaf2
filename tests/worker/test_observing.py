"""Ids of a click on their way through a real Celery worker, and into the job."""

import logging
import os
import subprocess
import sys

import pytest

from observability import context
from stack.environment import ROOT
from tests.worker.conftest import make_run
from tests.worker.fake_ray import FakeRay
from webapp.record.runs.models import Dispatch
from worker.dispatch import send_dispatches

ID = "click-0123456789"
OWN = (
    "DATABASE_URL",
    "HEADROOM_HOME",
    "DJANGO_SETTINGS_MODULE",
)  # of this process, as tests/conftest.py made them


@pytest.mark.deep
@pytest.mark.timeout(240)
def test_a_task_works_under_the_id_of_the_click_and_hands_it_on():
    kept = {k: v for k, v in os.environ.items() if k not in OWN and not k.startswith("PYTEST_")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/worker/through_a_worker.py",
    ]
    done = subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, timeout=200)

    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout[-4000:]


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
