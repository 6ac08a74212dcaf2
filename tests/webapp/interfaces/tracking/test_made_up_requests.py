"""Requests made up from good ones of MLflow's and trackio's clients, with odd values at any depth: none makes a 5xx.

Three hundred run with the other tests, five thousand in `make test-deep`; each leaves everything as it was.
"""

import hashlib
import json
import random
import uuid
from collections import Counter

import pytest
from django.db import transaction

from tests.deep import IS_DEEP
from tests.made_up import ODD, ODD_JSON, changed
from tests.webapp.interfaces.api.conftest import project, stranger, user  # noqa: F401 (fixtures)
from tests.webapp.interfaces.mlflow.conftest import T0, Mlflow
from tests.webapp.interfaces.trackio.conftest import Trackio
from webapp.identity.accounts.services import create_token
from webapp.interfaces.mlflow.urls import urlpatterns as mlflow_urls
from webapp.interfaces.trackio.urls import urlpatterns as trackio_urls

CASES = 5000 if IS_DEEP else 150
NOT_KEPT = 501  # an address of MLflow's that Headroom says not to keep


def of_mlflow(token: str) -> list[tuple[str, str, dict]]:
    """(method, path, body) of a good request to every address of MLflow's protocol."""
    client = Mlflow(token)
    run = client.new_run(run_name="first", tags=[{"key": "team", "value": "maths"}])
    client.log(run, {"loss": 1.0, "eval/pass_rate": 0.5})
    own = client.ok("experiments/create", name="grpo")
    client.ok("experiments/set-experiment-tag", experiment_id="0", key="a", value="b")
    made = client.ok(
        "logged-models", experiment_id="0", name="m", source_run_id=run, tags=[{"key": "a", "value": "b"}]
    )
    model = f"logged-models/{made['model']['info']['model_id']}"
    experiment, metric = {"experiment_id": "0"}, {"key": "loss", "value": 0.5, "step": 1, "timestamp": T0}
    search = {
        "filter": "metrics.loss < 2",
        "max_results": 5,
        "page_token": "",
        "order_by": ["metrics.loss DESC"],
    }
    tag = {"key": "a", "value": "b"}
    return [
        ("POST", "experiments/create", {"name": "another", "tags": [tag], "artifact_location": ""}),
        ("GET", "experiments/get", experiment),
        ("GET", "experiments/get-by-name", {"experiment_name": "grpo"}),
        ("POST", "experiments/search", {"max_results": 5, "filter": "name = 'grpo'", "view_type": "ALL"}),
        ("POST", "experiments/update", own | {"new_name": "other"}),
        ("POST", "experiments/delete", own),
        ("POST", "experiments/restore", own),
        ("POST", "experiments/set-experiment-tag", experiment | tag),
        ("POST", "experiments/delete-experiment-tag", experiment | {"key": "a"}),
        ("POST", "runs/create", experiment | {"start_time": T0, "run_name": "r", "tags": [tag], "user_id": "ada"}),
        ("GET", "runs/get", {"run_id": run}),
        ("POST", "runs/update", {"run_id": run, "status": "FINISHED", "end_time": T0 + 1, "run_name": "new"}),
        ("POST", "runs/delete", {"run_id": run}),
        ("POST", "runs/restore", {"run_id": run}),
        ("POST", "runs/search", {"experiment_ids": ["0"], "run_view_type": "ACTIVE_ONLY"} | search),
        ("POST", "runs/log-metric", {"run_id": run} | metric),
        ("POST", "runs/log-parameter", {"run_id": run, "key": "lr", "value": "1e-5"}),
        ("POST", "runs/set-tag", {"run_id": run} | tag),
        ("POST", "runs/delete-tag", {"run_id": run, "key": "team"}),
        ("POST", "runs/log-model", {"run_id": run, "model_json": "{}"}),
        ("POST", "runs/log-batch", {"run_id": run, "metrics": [metric], "params": [tag], "tags": [tag]}),
        ("POST", "runs/log-inputs", {"run_id": run, "datasets": [{"dataset": {"name": "d", "digest": "1"}}]}),
        ("POST", "runs/outputs", {"run_id": run, "models": [{"model_id": "m", "step": 1}]}),
        ("GET", "metrics/get-history", {"run_id": run, "metric_key": "loss", "max_results": "5"}),
        ("GET", "metrics/get-history-bulk-interval", {"run_ids": run, "metric_key": "loss", "max_results": "5"}),
        ("GET", "artifacts/list", {"run_id": run, "path": ""}),
        ("POST", "logged-models", experiment | {"name": "m", "source_run_id": run, "params": [tag], "tags": [tag]}),
        ("POST", "logged-models/search", {"experiment_ids": ["0"], "max_results": 5, "filter": ""}),
        ("GET", model, {}),
        ("PATCH", model, {"status": "LOGGED_MODEL_READY"}),
        ("PATCH", f"{model}/tags", {"tags": [tag]}),
        ("DELETE", f"{model}/tags/a", {}),
        ("POST", f"{model}/params", {"params": [tag]}),
        ("GET", "registered-models/search", {"max_results": "5"}),
    ]  # fmt: skip


def of_trackio(token: str) -> list[tuple[str, str, dict]]:
    """The same of trackio's."""
    client = Trackio(token)
    client.log(client.entry({"eval/pass_rate": 0.5, "loss": 1.0}, step=1))
    named = {"project": "grpo", "run": "first", "run_id": client.run_id}
    line = named | {
        "metrics": {"loss": 0.5, "n": 3},
        "step": 2,
        "config": {"lr": 1e-5},
        "log_id": uuid.uuid4().hex,
    }
    alert = named | {
        "title": "t",
        "text": "x",
        "level": "warn",
        "step": 2,
        "timestamp": "2026-01-01T00:00:00",
    }
    calls = {
        "get_runs_for_project": {"project": "grpo"},
        "get_run_summary": named,
        "bulk_log": {"logs": [line], "hf_token": None},
        "bulk_log_system": {"logs": [line], "hf_token": None},
        "bulk_alert": {"alerts": [alert], "hf_token": None},
    }
    file = {"uploaded_file": {"path": client.upload("0a1b.png", b"x"), "orig_name": "0a1b.png"}}
    blob = {"uploaded_file": {"path": client.upload("blob", b"y"), "orig_name": "blob"}}
    digest = hashlib.sha256(b"y").hexdigest()
    client.ok("bulk_upload_artifact_blob", project="grpo", uploads=[blob | {"digest": digest}], hf_token=None)
    again = {"uploaded_file": {"path": client.upload("blob", b"y"), "orig_name": "blob"}}
    manifest = [{"path": "weights", "size": 1, "digest": digest}]
    artifact = {
        "name": "policy",
        "type": "model",
        "description": "d",
        "metadata": {"k": 8},
        "aliases": ["best"],
    }
    calls |= {
        "bulk_upload_media": {
            "uploads": [named | file | {"step": 3, "relative_path": None}],
            "hf_token": None,
        },
        "check_artifact_blobs": {"project": "grpo", "digests": [digest], "hf_token": None},
        "bulk_upload_artifact_blob": {
            "project": "grpo",
            "uploads": [again | {"digest": digest}],
            "hf_token": None,
        },
        "artifact_log": {
            "project": "grpo",
            "run_name": "first",
            "run_id": client.run_id,
            "manifest": manifest,
        }
        | artifact,
        "get_artifact_manifest": {"project": "grpo", "name": "policy", "spec": "best"},
        "log_artifact_use": {
            "project": "grpo",
            "version_id": 0,
            "run_name": "first",
            "run_id": client.run_id,
        },
    }
    return [("POST", name, {"args": [], "kwargs": given}) for name, given in calls.items()]


def test_every_address_has_a_good_request(user, project):  # noqa: F811
    token = create_token(user=user, project=project, scope="write")
    mlflow, trackio = of_mlflow(token), of_trackio(token)
    paths = [str(pattern.pattern) for pattern in mlflow_urls if "<" not in str(pattern.pattern)]

    assert set(paths) <= {path for _, path, _ in mlflow}
    tools = {str(pattern.pattern) for pattern in trackio_urls if "<" not in str(pattern.pattern)}
    tools -= {"version", "health", "api/upload"}  # which takes files: tests/webapp/interfaces/trackio
    assert tools == {f"api/{name}" for _, name, _ in trackio}
    for base, requests in (("/api/2.0/mlflow/", mlflow[:-1]), ("/api/", trackio)):
        for method, path, body in requests:
            with transaction.atomic():
                answer = sent(Mlflow(token)._client, method, base + path, body, token)
                transaction.set_rollback(True)
            assert answer.status_code == 200, (method, path, answer.content)


def sent(client, method, address, body, token):
    headers = {"x-trackio-write-token": token}
    if method == "GET":
        return client.get(address, {name: str(value) for name, value in body.items()}, headers=headers)
    raw = json.dumps(body)
    return client.generic(method, address, raw, content_type="application/json", headers=headers)


@pytest.mark.long_form
@pytest.mark.timeout(4 * 3600)
def test_no_made_up_request_is_a_500(user, project):  # noqa: F811
    token = create_token(user=user, project=project, scope="write")
    good = [(method, f"/api/2.0/mlflow/{path}", body) for method, path, body in of_mlflow(token)]
    good += [(method, f"/api/{name}", body) for method, name, body in of_trackio(token)] * 3
    client, rng = Mlflow(token)._client, random.Random(20261125)
    client.raise_request_exception = False
    statuses, faults = Counter(), []
    for _ in range(CASES):
        method, address, body = rng.choice(good)
        given = changed(body, rng, ODD if method == "GET" else ODD_JSON)
        if rng.random() < 0.05:
            address = f"{address.rpartition('/')[0]}/{rng.choice(['odd', '%00', 'a' * 500, '..', 'é'])}"
        with transaction.atomic():
            answer = sent(client, method, address, given, token)
            transaction.set_rollback(True)
        statuses[answer.status_code] += 1
        if answer.status_code >= 500 and answer.status_code != NOT_KEPT:
            faults.append(f"{method} {address} {json.dumps(given)[:400]}: {answer.content[:300]!r}")

    print(f"{sum(statuses.values())} requests: {dict(sorted(statuses.items()))}")
    assert faults == []
    assert {200, 400} <= set(statuses)
