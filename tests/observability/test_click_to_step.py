"""One trace, from the request that launches a run to the steps of its driver: the real API, a real Celery worker, the
worker's own submission, and the driver's own command. Only Ray's Jobs API is a small server of ours, and in the short
form the driver's actors know no torch."""

import json
import os
import shlex
import subprocess

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from django.db import connections
from django.test import Client

from observability import tracing
from tests.deep import IS_DEEP
from tests.training.conftest import toy_model  # noqa: F401 (fixture)
from tests.waiting import wait_until
from tests.worker.conftest import broker, ray, with_broker  # noqa: F401 (fixtures)
from webapp.identity.accounts.models import User
from webapp.identity.accounts.services import create_token, default_project, set_role
from webapp.record.runs.models import Run, State
from worker import names, observing
from worker.dispatch import send_dispatches

CALLER = "0af7651916cd43dd8448eb211c80319c"
REQUEST = "click-to-step-0001"
SMALL = (
    "--engine transformers --depth 1 --steps 2 --set rollout.prompts_per_step=2 "
    "--set rollout.generations_per_prompt=2 --set eval.prompts=4 --set eval.k=2"
)
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker(with_broker):  # noqa: F811
    app = Celery("headroom", broker=with_broker, set_as_current=False)
    app.conf.update(task_ignore_result=True, accept_content=["json"])

    @app.task(name=names.DISPATCH, shared=False)
    def dispatch(run_id):
        send_dispatches(run_id=run_id)
        connections.close_all()  # of this thread

    observing.install()
    with start_worker(app, perform_ping_check=False, pool="solo", loglevel="ERROR"):
        yield


def launch(model):
    """POST /api/v1/runs, as a caller does who has a trace of its own."""
    project = default_project()
    user = User.objects.create_user("ada")
    set_role(project, user, "admin")
    token = create_token(user=user, project=project, scope="launch")
    body = {"recipe": "tiny-scalerl", "task": "arithmetic", "model": model, "seed": 0, "budget_hours": 1}
    headers = {
        "Authorization": f"Bearer {token}", "X-Request-ID": REQUEST,
        "traceparent": f"00-{CALLER}-b7ad6b7169203331-01",
    }  # fmt: skip
    answer = Client(headers=headers).post("/api/v1/runs", json.dumps(body), content_type="application/json")
    assert answer.status_code == 201, answer.content
    return answer.json()["id"]


def drive(submission):
    """What Ray would run, for two small steps, with nobody to report to."""
    given = submission["runtime_env"]["env_vars"]
    variables = {
        name: value for name, value in given.items() if name not in ("HEADROOM_URL", "HEADROOM_TOKEN_FILE")
    }
    words = shlex.split(submission["entrypoint"])[1:] + shlex.split(SMALL)
    if not IS_DEEP:
        words[words.index("training")] = "tests.training.cluster.toy_command"
    return subprocess.run(words, env=os.environ | variables, capture_output=True, text=True, timeout=240)


@pytest.mark.long_form
def test_one_trace_holds_everything_from_the_click_to_the_gradient_steps(
    collector, worker, ray, toy_model, settings, tmp_path  # noqa: F811
):  # fmt: skip
    settings.HEADROOM_HOME, settings.HEADROOM_URL = tmp_path, "http://headroom.example"
    settings.MODEL_ROOTS = [str(toy_model.parent)]
    run_id = launch(str(toy_model))
    wait_until(lambda: Run.objects.get(pk=run_id).state == State.STARTING)
    submission = ray.jobs[f"run-{run_id}-a1"].submission
    done = drive(submission)
    assert done.returncode == 0, done.stdout + done.stderr
    tracing.flush()
    wait_until(lambda: collector.named("run") and collector.named("task dispatch"))

    spans = [span for span in collector.spans if span.trace == CALLER]
    by_id = {span.span: span for span in spans}

    def way(span):
        """Names from the click down to this span."""
        above = by_id.get(span.parent)
        return [*(way(above) if above else []), span.name]

    ways = [tuple(way(span)) for span in spans]
    run = ("POST /api/v1/runs", "launch", "task dispatch", "submit", "run")
    assert run in ways
    for work in ("generate", "reward", "train", "weight update"):
        assert ways.count((*run, "step", work)) == 2, sorted(set(ways))
    assert (*run, "start engines and trainers") in ways and (*run, "evaluate") in ways
    assert not [span for span in spans if span.failed]
    steps = sorted(span.attributes["headroom.step"] for span in spans if span.name == "step")
    assert steps == [1, 2]
    for span in spans:
        assert span.ended >= span.began > 0
    for span in (span for span in spans if span.service == "headroom-driver"):
        assert span.attributes["headroom.run"] == run_id and span.attributes["headroom.request_id"] == REQUEST
    click = next(span for span in spans if span.name == run[0])
    assert click.attributes["http.response.status_code"] == 201


def test_a_driver_without_an_endpoint_imports_no_opentelemetry_of_ours(monkeypatch):
    """Every function on the way of a step is called, as it is without the variable."""
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    from training.driver.stepmetrics import GroupTimes

    times = GroupTimes()
    times.begins(1)
    times.generated(1)
    times.judged(1)
    times.tell([1])

    assert times._moments == {} and not tracing.is_on()
