"""Clients of MLflow's protocol with tokens of each scope."""

import json

import pytest
from django.test import Client

from tests.webapp.interfaces.api.conftest import project, stranger, user  # noqa: F401 (fixtures)
from webapp.identity.accounts.services import create_token

T0 = 1_760_000_000_000  # milliseconds


class Mlflow:
    """Asks as MLflow's client does, CSRF checks on; paths relative to /api/2.0/mlflow/."""

    def __init__(self, token=None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = Client(enforce_csrf_checks=True, headers=headers)

    def get(self, path, /, **query):
        return self._client.get(f"/api/2.0/mlflow/{path}", query)

    def post(self, path, **body):
        return self.send(path, json.dumps(body))

    def send(self, path, raw):
        return self._client.post(f"/api/2.0/mlflow/{path}", raw, content_type="application/json")

    def ok(self, path, **body):
        """The answer to a POST that must succeed."""
        response = self.post(path, **body)
        assert response.status_code == 200, response.content
        return response.json()

    def new_run(self, experiment_id="0", **body):
        return self.ok("runs/create", experiment_id=experiment_id, start_time=T0, **body)["run"]["info"][
            "run_id"
        ]

    def log(self, run_id, metrics, step=0, time=T0, **more):
        lines = [{"key": k, "value": v, "step": step, "timestamp": time} for k, v in metrics.items()]
        return self.post("runs/log-batch", run_id=run_id, metrics=lines, **more)

    def run(self, run_id):
        response = self.get("runs/get", run_id=run_id)
        assert response.status_code == 200, response.content
        return response.json()["run"]

    def history(self, run_id, name):
        found = self.get("metrics/get-history", run_id=run_id, metric_key=name)
        assert found.status_code == 200, found.content
        return [(item["step"], item["timestamp"], item["value"]) for item in found.json()["metrics"]]


@pytest.fixture
def client_with(user, project):  # noqa: F811
    return lambda scope: Mlflow(create_token(user=user, project=project, scope=scope))


@pytest.fixture
def mlflow(client_with):
    return client_with("write")


@pytest.fixture
def reader(client_with):
    return client_with("read")


@pytest.fixture
def foreign(stranger):  # noqa: F811
    """A client with a token of another project."""
    found = Mlflow()
    found._client = stranger._client
    return found


@pytest.fixture
def refusal():
    """refusal(response): (status, error_code, message) of an error, whose form is checked on the way."""

    def read(response):
        assert response["Content-Type"].startswith("application/json")
        body = response.json()
        assert set(body) == {"error_code", "message"}
        return response.status_code, body["error_code"], body["message"]

    return read
