"""Every record of a run, from its page."""

import csv
import io
import json

import pytest

from tests.launching import tracked_run
from tests.members import member
from training.records import Record
from webapp.identity.accounts.services import default_project
from webapp.record.runs import ingest


@pytest.fixture
def run(db, client):
    project = default_project()
    user = member("ada", project=project)
    client.force_login(user)
    run = tracked_run(user=user, project=project, name="elsewhere", task="math")
    record = {
        "attempt": 1, "seq": 0, "step": 3, "time": "2026-01-01T00:00:00Z",
        "compute": {"device_hours": 1.5, "flops": 2.0, "tokens": 3.0}, "metrics": {"train/reward": 0.25},
    }  # fmt: skip
    ingest.store_records(run, [Record.model_validate(record)])
    return run


def content_of(response):
    assert response.status_code == 200
    return b"".join(response.streaming_content)


def test_the_page_has_the_files(client, run):
    page = client.get(f"/runs/{run.pk}").content.decode()

    for form in ("csv", "jsonl", "parquet"):
        assert f'href="/runs/{run.pk}/records.{form}"' in page
    (row,) = csv.DictReader(io.StringIO(content_of(client.get(f"/runs/{run.pk}/records.csv")).decode()))
    assert (row["step"], row["device_hours"], row["train/reward"]) == ("3", "1.5", "0.25")
    line = json.loads(content_of(client.get(f"/runs/{run.pk}/records.jsonl")))
    assert line["metrics"] == {"train/reward": 0.25}
    assert content_of(client.get(f"/runs/{run.pk}/records.parquet"))[:4] == b"PAR1"


def test_a_table_that_is_too_wide_is_refused_with_the_reason(client, run):
    time = "2026-01-01T00:00:00Z"
    compute = {"device_hours": 1.5, "flops": 2.0, "tokens": 3.0}
    for seq in (1, 2, 3):
        metrics = {f"{seq}.{i}": 1.0 for i in range(1000)}
        record = {"attempt": 1, "seq": seq, "step": 4, "time": time, "compute": compute, "metrics": metrics}
        ingest.store_records(run, [Record.model_validate(record)])

    response = client.get(f"/runs/{run.pk}/records.csv")

    assert (response.status_code, response["Content-Type"]) == (422, "text/plain; charset=utf-8")
    assert "more than 2000 metrics" in response.content.decode()
