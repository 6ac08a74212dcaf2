"""Who may: scopes, other projects, people who lost their role; and what is not spoken here."""

import pytest

from tests.launching import tracked_run
from tests.webapp.interfaces.mlflow.conftest import Mlflow
from webapp.interfaces.mlflow.urls import urlpatterns
from webapp.record.runs.models import Run
from webapp.record.runs.tokens import create_job_token

READS = {
    "experiments/get", "experiments/get-by-name", "experiments/search", "runs/get", "runs/search",
    "metrics/get-history", "metrics/get-history-bulk-interval", "artifacts/list",
}  # fmt: skip
READS |= {"logged-models/search"}
GETS = READS - {"experiments/search", "runs/search", "logged-models/search"}
PATHS = [str(pattern.pattern) for pattern in urlpatterns if "<" not in str(pattern.pattern)]


@pytest.mark.parametrize("path", PATHS)
def test_every_address_asks_for_a_token(db, refusal, path):
    ask = Mlflow().get if path in GETS else Mlflow().post
    wrong = Mlflow("hr_wrong")

    assert refusal(ask(path))[:2] == (401, "UNAUTHENTICATED")
    assert refusal((wrong.get if path in GETS else wrong.post)(path))[:2] == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("path", PATHS)
def test_reading_needs_read_and_logging_needs_write(reader, refusal, path):
    answer = (reader.get if path in GETS else reader.post)(path)

    if path in READS:
        assert answer.status_code != 403
    else:
        status, code, message = refusal(answer)
        assert (status, code) == (403, "PERMISSION_DENIED") and "write" in message


@pytest.mark.parametrize("path", PATHS)
def test_the_other_method_is_refused(mlflow, refusal, path):
    assert refusal((mlflow.post if path in GETS else mlflow.get)(path))[0] == 405


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("runs/get", {}), ("runs/update", {"status": "FINISHED"}), ("runs/delete", {}), ("runs/restore", {}),
        ("runs/log-batch", {"metrics": [{"key": "a", "value": 1, "timestamp": 1}]}), ("runs/log-inputs", {}),
        ("runs/log-metric", {"key": "a", "value": 1, "timestamp": 1}), ("runs/set-tag", {"key": "a", "value": "b"}),
        ("runs/log-parameter", {"key": "a", "value": "b"}), ("runs/delete-tag", {"key": "a"}),
        ("runs/log-model", {"model_json": "{}"}), ("metrics/get-history", {"metric_key": "a"}),
        ("metrics/get-history-bulk-interval", {"metric_key": "a", "RUNS": True}), ("artifacts/list", {}),
    ],
)  # fmt: skip
def test_runs_of_others_are_not_there(mlflow, foreign, refusal, path, more):
    run_id = mlflow.new_run()
    body = {"run_ids": run_id} if more.pop("RUNS", False) else {"run_id": run_id}
    ask = foreign.get if path in GETS else foreign.post

    answer = refusal(ask(path, **body, **more))

    assert answer[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
    assert refusal(ask(path, **dict.fromkeys(body, "f" * 32), **more)) == (
        *answer[:2], answer[2].replace(run_id, "f" * 32),
    )  # fmt: skip
    assert Run.objects.get().state == "running"


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("experiments/get", {}), ("experiments/update", {"new_name": "b"}), ("experiments/delete", {}),
        ("experiments/restore", {}), ("experiments/set-experiment-tag", {"key": "a", "value": "b"}),
        ("experiments/delete-experiment-tag", {"key": "a"}), ("runs/create", {}),
    ],
)  # fmt: skip
def test_experiments_of_others_are_not_there(mlflow, foreign, refusal, path, more):
    made = mlflow.ok("experiments/create", name="ours")["experiment_id"]
    ask = foreign.get if path in GETS else foreign.post

    assert refusal(ask(path, experiment_id=made, **more))[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
    assert foreign.ok("experiments/search")["experiments"] == []
    assert foreign.ok("runs/search", experiment_ids=[made])["runs"] == []


def test_a_runs_own_token_does_not_open_this(project, user, refusal):
    run = tracked_run(user=user, project=project, name="native")
    job = Mlflow(create_job_token(run))

    assert refusal(job.post("runs/create"))[:2] == (403, "PERMISSION_DENIED")


def test_what_headroom_does_not_speak_says_so(mlflow, refusal):
    for path in ("registered-models/create", "traces", "gateway/routes", ""):
        status, code, message = refusal(mlflow.post(path))
        assert (status, code) == (404, "ENDPOINT_NOT_FOUND") and "/api/2.0/mlflow/" in message


@pytest.mark.parametrize(
    "path", ["3.0/mlflow/traces/search", "3.0/mlflow/datasets/create", "4.0/mlflow/traces/a/b"]
)
def test_newer_parts_of_the_protocol_are_refused_in_its_form(client, refusal, path):
    for answer in (
        client.get(f"/api/{path}"),
        client.post(f"/api/{path}", "{}", content_type="application/json"),
    ):
        status, code, message = refusal(answer)
        assert (status, code) == (404, "ENDPOINT_NOT_FOUND") and f"/api/{path}" in message


def test_version_and_health_ask_for_nothing(client):
    assert client.get("/version").json()["api_version"] == 1
    assert client.get("/health").content == b"OK"
