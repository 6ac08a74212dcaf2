"""/metrics: who may read it, and that its figures are those of what happened."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from django.core.checks import run_checks
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from tests.launching import tracked_run
from webapp.identity.accounts.services import create_project
from webapp.operation.observing import exposition
from webapp.record.runs.models import Dispatch, Run
from webapp.record.runs.tokens import create_job_token
from webapp.science.curves.services import refit

ROOT = Path(__file__).resolve().parents[4]
TOKEN = "a-token-of-prometheus"
pytestmark = pytest.mark.django_db


@pytest.fixture
def opened(settings):
    settings.METRICS_TOKEN = TOKEN
    return Client(headers={"Authorization": f"Bearer {TOKEN}"})


def samples(client):
    """(name, labels) -> value."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.content.decode())
    return {
        (one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples
    }


def test_without_a_variable_they_are_not_there(client):
    assert client.get("/metrics").status_code == 404
    assert client.get("/metrics", REMOTE_ADDR="127.0.0.1").status_code == 404


@pytest.mark.parametrize("sent", ["", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer None", TOKEN])
def test_only_the_bearer_of_the_token_reads_them(opened, sent):
    answer = Client(headers={"Authorization": sent}).get("/metrics")

    assert answer.status_code == 401 and answer["WWW-Authenticate"].startswith("Bearer")
    assert b"headroom_" not in answer.content
    assert opened.post("/metrics").status_code == 405


@pytest.mark.parametrize(
    ("proxies", "address", "forwarded", "status"),
    [
        (0, "10.1.2.3", None, 200),
        (0, "fd00::7", None, 200),
        (0, "192.0.2.1", None, 403),
        (0, "10.1.2.3", "10.1.2.3", 403),  # by a proxy that nobody told us of: everybody would come from it
        (1, "10.9.9.9", "192.0.2.1", 403),
        (1, "10.9.9.9", "10.1.2.3, 192.0.2.1", 403),
        (1, "192.0.2.9", "192.0.2.1, 10.1.2.3", 200),
    ],
)
def test_callers_from_a_network_need_no_token(client, settings, proxies, address, forwarded, status):
    settings.METRICS_ALLOW, settings.TRUSTED_PROXIES = "10.0.0.0/8, fd00::/8", proxies
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}

    assert client.get("/metrics", REMOTE_ADDR=address, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("METRICS_TOKEN", "short", "HEADROOM_METRICS_TOKEN must have at least 16 characters"),
        ("METRICS_TOKEN", " a-token-of-prometheus", "no space around"),
        ("METRICS_ALLOW", "0.0.0.0/0", "HEADROOM_METRICS_ALLOW: a network of all addresses"),
        ("METRICS_ALLOW", "10.0.0.0/8,::/0", "HEADROOM_METRICS_ALLOW: a network of all addresses"),
        ("METRICS_ALLOW", "prometheus", "HEADROOM_METRICS_ALLOW: 'prometheus' does not appear to be"),
    ],
)
def test_a_door_that_is_no_door_is_said_at_start(settings, name, value, said):
    setattr(settings, name, value)

    assert [error.msg for error in run_checks(tags=["headroom"]) if said in error.msg]


@pytest.mark.parametrize("port", ["web", "70000", "-1"])
def test_a_port_that_is_none_is_said_at_start(monkeypatch, port):
    monkeypatch.setenv("HEADROOM_METRICS_PORT", port)

    assert [error.id for error in run_checks(tags=["headroom"])] == ["headroom.E013"]


def test_the_checks_have_nothing_to_say_of_what_is_right(settings, monkeypatch):
    settings.METRICS_TOKEN, settings.METRICS_ALLOW = TOKEN, "10.0.0.0/8,127.0.0.1"
    monkeypatch.setenv("HEADROOM_METRICS_PORT", "9101")

    assert run_checks(tags=["headroom"]) == []


def test_requests_are_counted_by_view_and_status_and_callers_make_up_no_labels(opened):
    before = samples(opened)
    opened.get("/sign-in")
    opened.generic("BREW", "/sign-in")
    for number in range(3):
        opened.get(f"/no-such-{number}")
    after = samples(opened)

    new = {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}
    counted = {key[1:]: value for key, value in new.items() if key[0] == "headroom_http_requests_total"}
    assert counted[("method", "GET"), ("status", "200"), ("view", "sign-in")] == 1
    assert counted[("method", "other"), ("status", "405"), ("view", "sign-in")] == 1
    assert counted[("method", "GET"), ("status", "404"), ("view", "none")] == 3
    assert new["headroom_http_request_duration_seconds_count", ("method", "GET"), ("view", "sign-in")] == 1


def test_what_a_trainer_sends_is_counted_once_it_is_stored(opened, django_capture_on_commit_callbacks):
    project = create_project(slug="math", name="Math")
    run = tracked_run(user=None, project=project, name="elsewhere")
    token = create_job_token(run)
    time = (timezone.now() - timedelta(seconds=40)).isoformat()
    metrics = {"eval/pass_rate": 0.5, "eval/pass_rate_stderr": 0.1, "train/reward": 1.0, "train/kl": None}
    compute = {"device_hours": 0.1, "flops": None, "tokens": None}
    same = {"attempt": 1, "time": time, "compute": compute, "metrics": metrics}
    records = [same | {"seq": seq, "step": seq} for seq in (0, 1)]
    before = samples(opened)
    for body in ({"records": records}, {"records": records[:1]}, {"records": []}, {"records": [{}]}):
        with django_capture_on_commit_callbacks(execute=True):
            Client(headers={"Authorization": f"Bearer {token}"}).post(
                f"/api/v1/runs/{run.pk}/records", json.dumps(body), content_type="application/json"
            )
    after = samples(opened)

    def grown(name, *labels):
        return after.get((name, *labels), 0) - before.get((name, *labels), 0)

    assert grown("headroom_ingest_records_total", ("outcome", "new")) == 2
    assert grown("headroom_ingest_records_total", ("outcome", "repeated")) == 1
    assert grown("headroom_ingest_points_total") == 6  # a standard error and what is not finite are no points
    assert grown("headroom_ingest_duration_seconds_count") == 2
    assert grown("headroom_ingest_lag_seconds_count") == 1
    assert 40 <= grown("headroom_ingest_lag_seconds_sum") < 300
    assert after["headroom_runs", ("state", "running")] == 1
    assert after["headroom_refits_wanted",] == 1 and after["headroom_refits_oldest_age_seconds",] > 0
    assert after["headroom_runs_by_fit", ("status", "none")] == 1

    refit(run.pk)
    assert samples(opened)["headroom_refits_wanted",] == 0


def test_the_outbox_is_as_the_database_has_it(opened):
    run = Run.objects.create(project=create_project(slug="math", name="Math"), name="r", task="t", model="m")
    row = Dispatch.objects.create(run=run, attempt=1, kind=Dispatch.Kind.STOP)
    Dispatch.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(seconds=90))

    found = samples(opened)

    assert found["headroom_dispatches_waiting",] == 1
    assert 90 <= found["headroom_dispatches_oldest_age_seconds",] < 300
    assert found["headroom_database_size_bytes",] > 1_000_000 and found["headroom_disk_free_bytes",] > 0
    assert found["headroom_broker_up",] == 0 and ("headroom_broker_queue_length",) not in found


def test_a_scrape_costs_a_constant_number_of_queries(opened, django_assert_max_num_queries):
    opened.get("/metrics")
    with django_assert_max_num_queries(12):
        opened.get("/metrics")


def test_without_the_database_there_is_what_was_counted(opened, monkeypatch):
    from django.db import OperationalError

    def away():
        raise OperationalError("secret-host is away")

    monkeypatch.setattr(exposition, "status_now", away)
    opened.get("/sign-in")
    found = samples(opened)

    assert found["headroom_database_up",] == 0
    assert any(name == "headroom_http_requests_total" for name, *_ in found)


TWO_PROCESSES = """
import os
import django
django.setup()
from webapp.base import metrics
from webapp.operation.observing import exposition
for number in range(2):
    child = os.fork()
    if child == 0:
        metrics.note_request("runs", "GET", 200, 0.1)
        os._exit(0)
    os.waitpid(child, 0)
print(exposition.counted().decode())
"""


def test_processes_that_share_a_folder_answer_for_each_other(tmp_path):
    variables = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "not" / "there yet")}
    done = subprocess.run(
        [sys.executable, "-c", TWO_PROCESSES], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120
    )  # fmt: skip

    assert 'headroom_http_requests_total{method="GET",status="200",view="runs"} 2.0' in done.stdout, (
        done.stderr
    )


def test_a_worker_answers_for_itself_behind_the_same_door(settings):
    settings.METRICS_TOKEN = TOKEN
    server = exposition.serve("127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        assert httpx.get(f"{url}/metrics").status_code == 401
        assert httpx.get(f"{url}/other", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 404
        answer = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    finally:
        server.shutdown()
        server.server_close()

    assert answer.status_code == 200 and "# TYPE headroom_tasks_total counter" in answer.text
    assert "headroom_runs" not in answer.text
