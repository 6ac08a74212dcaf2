"""Clients with tokens of each scope, and a project that can launch."""

import json

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from tests.fake_model import make_model
from tests.launching import tracked_run
from webapp.identity.accounts.services import create_project, create_token, set_role
from webapp.record.runs.tokens import create_job_token


class ApiClient:
    """Django's test client with a bearer token, CSRF checks on, paths relative to /api/v1/."""

    def __init__(self, token=None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = Client(enforce_csrf_checks=True, headers=headers)

    def get(self, path, **query):
        return self._client.get(f"/api/v1/{path}", query)

    def post(self, path, body=None, **headers):
        raw = body if isinstance(body, bytes) else json.dumps({} if body is None else body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.post(f"/api/v1/{path}", raw, content_type="application/json", headers=named)

    def request(self, method, path, body=None):
        raw = "" if body is None else json.dumps(body)
        return self._client.generic(method, f"/api/v1/{path}", raw, content_type="application/json")


@pytest.fixture
def project(db):
    return create_project(slug="math", name="Math")


@pytest.fixture
def user(project):
    user = get_user_model().objects.create_user("ada")
    set_role(project, user, "admin")
    return user


@pytest.fixture
def client_with(user, project):
    """client_with("read"): a client whose token has that scope."""
    return lambda scope, run=None: ApiClient(
        create_job_token(run) if run else create_token(user=user, project=project, scope=scope)
    )


@pytest.fixture
def reader(client_with):
    return client_with("read")


@pytest.fixture
def writer(client_with):
    return client_with("write")


@pytest.fixture
def launcher(client_with):
    return client_with("launch")


@pytest.fixture
def stranger(db):
    """Someone with a launch token of another project."""
    project = create_project(slug="code", name="Code")
    user = get_user_model().objects.create_user("mallory")
    set_role(project, user, "admin")
    return ApiClient(create_token(user=user, project=project, scope="launch"))


@pytest.fixture
def anonymous(db):
    return ApiClient()


@pytest.fixture
def model_folder(headroom_home, settings):
    folder = make_model(headroom_home, "tiny-arithmetic", 4096)
    settings.HEADROOM_URL = "http://web.invalid:8000"
    return folder


@pytest.fixture
def launch_body(model_folder):
    return {
        "recipe": "tiny-scalerl",
        "task": "arithmetic",
        "model": "tiny-arithmetic",
        "seed": 1,
        "budget_hours": 0.5,
    }


@pytest.fixture
def tracked(project, user):
    return tracked_run(user=user, project=project, name="elsewhere", task="math", model="8b")


@pytest.fixture
def record():
    """record(3, {"a": 1.0}): a record as JSON."""

    def make(step, metrics, **changes):
        return {
            "attempt": 1,
            "seq": step,
            "step": step,
            "time": "2026-01-01T00:00:00Z",
            "compute": {"device_hours": 0.1 * step, "flops": 1e12 * step, "tokens": 1e3 * step},
            "metrics": metrics,
        } | changes

    return make


@pytest.fixture
def problem():
    """problem(response): (status, code, field, message) of an error, whose form is checked on the way."""

    def read(response):
        assert response["Content-Type"].startswith("application/json")
        body = response.json()
        assert set(body) == {"error"}
        assert {"code", "message"} <= set(body["error"]) <= {"code", "message", "field"}
        error = body["error"]
        return response.status_code, error["code"], error.get("field"), error["message"]

    return read
