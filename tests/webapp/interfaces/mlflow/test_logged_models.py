"""What MLflow 3 says of a model that is logged; test_artifacts.py has its files."""

import json

import pytest

from tests.webapp.interfaces.mlflow.conftest import Mlflow
from webapp.interfaces.mlflow import logged_models
from webapp.record.runs import bounds


@pytest.fixture
def made(mlflow):
    run_id = mlflow.new_run()
    answer = mlflow.ok(
        "logged-models", experiment_id="0", name="checkpoint-2", source_run_id=run_id, model_type="lora",
        params=[{"key": "lr", "value": "1"}], tags=[{"key": "a", "value": "b"}],
    )  # fmt: skip
    return answer["model"]["info"]["model_id"]


def ask(client, method, path, body=None):
    raw = json.dumps(body or {})
    return client._client.generic(method, f"/api/2.0/mlflow/{path}", raw, content_type="application/json")


def test_a_model_is_noted_changed_and_read_back(mlflow, reader, made):
    ask(mlflow, "PATCH", f"logged-models/{made}", {"model_id": made, "status": "LOGGED_MODEL_READY"})
    ask(mlflow, "PATCH", f"logged-models/{made}/tags", {"tags": [{"key": "c", "value": "d"}]})
    mlflow.ok(f"logged-models/{made}/params", params=[{"key": "k", "value": "8"}])
    ask(mlflow, "DELETE", f"logged-models/{made}/tags/a")

    model = reader.get(f"logged-models/{made}").json()["model"]

    assert (model["info"]["name"], model["info"]["model_type"]) == ("checkpoint-2", "lora")
    assert model["info"]["status"] == "LOGGED_MODEL_READY" and model["info"]["artifact_uri"] == (
        f"mlflow-artifacts:/0/models/{made}/artifacts"
    )
    assert model["info"]["tags"] == [{"key": "c", "value": "d"}]
    assert model["data"]["params"] == [{"key": "k", "value": "8"}, {"key": "lr", "value": "1"}]


METHODS = [
    ("GET", ""), ("PATCH", ""), ("PATCH", "/tags"), ("DELETE", "/tags/a"), ("POST", "/params"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "rest"), METHODS)
def test_who_may(made, reader, foreign, refusal, method, rest):
    body = {"status": "LOGGED_MODEL_READY"}

    assert refusal(ask(Mlflow(), method, f"logged-models/{made}{rest}", body))[0] == 401
    assert refusal(ask(foreign, method, f"logged-models/{made}{rest}", body))[:2] == (
        404,
        "RESOURCE_DOES_NOT_EXIST",
    )
    if method != "GET":
        assert refusal(ask(reader, method, f"logged-models/{made}{rest}", body))[:2] == (
            403,
            "PERMISSION_DENIED",
        )


def test_what_is_wrong_is_said(mlflow, made, refusal):
    assert refusal(ask(mlflow, "PUT", f"logged-models/{made}"))[0] == 405
    assert "status" in refusal(ask(mlflow, "PATCH", f"logged-models/{made}", {"status": "GREAT"}))[2]
    assert refusal(mlflow.get("logged-models/m-1"))[:2] == (404, "RESOURCE_DOES_NOT_EXIST")
    assert refusal(ask(mlflow, "DELETE", f"logged-models/{made}/tags/zzz"))[0] == 404
    assert refusal(mlflow.post("logged-models", name="x"))[:2] == (501, "NOT_IMPLEMENTED")
    assert mlflow.ok("logged-models/search") == {"models": []}


def test_what_is_said_of_models_has_a_bound(mlflow, made, refusal, monkeypatch):
    monkeypatch.setattr(bounds, "MAX_MODELS_CHARACTERS", 1600)
    params = [{"key": f"p{i}", "value": "x" * 100} for i in range(15)]

    mlflow.ok(f"logged-models/{made}/params", params=params[:10])
    status, code, words = refusal(mlflow.post(f"logged-models/{made}/params", params=params[10:]))

    assert (status, code) == (400, "INVALID_PARAMETER_VALUE")
    assert "models: what is said of a run's models and artifacts may have at most 1,600 characters" in words
    assert len(mlflow.get(f"logged-models/{made}").json()["model"]["data"]["params"]) == 11


def test_a_search_ends_where_much_was_said(mlflow, made, monkeypatch):
    newer = mlflow.ok("logged-models", experiment_id="0", name="other", source_run_id=mlflow.new_run())
    both = {
        each["info"]["model_id"] for each in mlflow.ok("logged-models/search", experiment_ids=["0"])["models"]
    }
    assert both == {made, newer["model"]["info"]["model_id"]}

    monkeypatch.setattr(logged_models, "MAX_MODELS_CHARACTERS", 300)
    assert len(mlflow.ok("logged-models/search", experiment_ids=["0"])["models"]) == 1
