"""Clients of trackio's protocol with tokens of each scope."""

import json
import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.webapp.interfaces.api.conftest import project, stranger, user  # noqa: F401 (fixtures)
from webapp.identity.accounts.models import ApiToken
from webapp.identity.accounts.services import create_token


class Trackio:
    """Asks as trackio's client does, CSRF checks on."""

    def __init__(self, token=None):
        headers = {"x-trackio-write-token": token} if token else {}
        self._client = Client(enforce_csrf_checks=True, headers=headers)
        self.run_id = uuid.uuid4().hex

    def call(self, name, /, *args, **kwargs):
        return self.send(name, json.dumps({"args": list(args), "kwargs": kwargs}))

    def send(self, name, raw):
        return self._client.post(f"/api/{name}", raw, content_type="application/json")

    def ok(self, name, /, *args, **kwargs):
        response = self.call(name, *args, **kwargs)
        assert response.status_code == 200, response.content
        body = response.json()
        assert set(body) == {"data", "error"} and body["error"] is None
        return body["data"]

    def entry(self, metrics, step=None, **changes):
        """A line as the client sends it."""
        return {
            "project": "grpo", "run": "first", "run_id": self.run_id, "metrics": metrics, "step": step,
            "config": None, "log_id": uuid.uuid4().hex,
        } | changes  # fmt: skip

    def upload(self, name, content):
        """Send a file as the client does before it says what it is; where it lies now."""
        answer = self._client.post("/api/upload", {"files": SimpleUploadedFile(name, content)})
        assert answer.status_code == 200, answer.content
        (path,) = answer.json()["paths"]
        return path

    def log(self, *entries):
        return self.ok("bulk_log", logs=list(entries), hf_token=None)


@pytest.fixture
def client_with(user, project):  # noqa: F811
    return lambda scope: Trackio(create_token(user=user, project=project, scope=scope))


@pytest.fixture
def trackio(client_with):
    return client_with("write")


@pytest.fixture
def foreign(stranger):  # noqa: F811
    token = ApiToken.objects.select_related("user", "project").get(project__slug="code")
    return Trackio(create_token(user=token.user, project=token.project, scope="write"))
