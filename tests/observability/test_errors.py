"""Errors of web server, worker and driver reach a local receiver, with their ids and without secrets."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from observability import errors
from tests.observability.sentry import Sentry

ROOT = Path(__file__).resolve().parents[2]
SECRETS = {
    "HEADROOM_SECRET_KEY": "django-key-of-this-place",
    "HEADROOM_SMTP_HOST": "mail.invalid",
    "HEADROOM_SMTP_USER": "headroom",
    "HEADROOM_SMTP_PASSWORD": "mail-password",
    "REDIS_URL": "redis://:redis-password@127.0.0.1:1/0",
}
MESSAGE = "cannot use redis://:redis-password@127.0.0.1:1/0 with django-key-of-this-place and mail-password"


@pytest.fixture
def sentry():
    with Sentry() as made:
        yield made


def run(command, tmp_path, **variables):
    known = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "SENTRY_"))}
    variables = known | SECRETS | {"HEADROOM_HOME": str(tmp_path)} | variables
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120
    )


def of(sentry):
    """The one event; whatever it is about, no secret is anywhere in what was sent."""
    for text in sentry.raw:
        for secret in (
            "redis-password",
            "django-key-of-this-place",
            "mail-password",
            "person-",
            "hub-secret-value",
        ):
            assert secret not in text
    (event,) = sentry.events
    return event


WEB = """
import io, sys, types
sys.argv = ["gunicorn"]
from webapp.wsgi import application
from django.conf import settings
from django.views.decorators.csrf import csrf_exempt
from webapp.interfaces.routes import EVERYBODY, Need, route
from webapp.urls import urlpatterns
@csrf_exempt
def broken(request, key):
    local = "person-local"
    raise RuntimeError(%r)
urls = types.ModuleType("urls_of_the_test")
urls.urlpatterns = [route("share/<key>", broken, "broken", Need(EVERYBODY, EVERYBODY)), *urlpatterns]
sys.modules["urls_of_the_test"] = urls
settings.ROOT_URLCONF = "urls_of_the_test"
environ = {
    "REQUEST_METHOD": "POST", "PATH_INFO": "/share/person-key", "QUERY_STRING": "query=person-query",
    "HTTP_HOST": "localhost", "SERVER_NAME": "localhost", "SERVER_PORT": "80", "REMOTE_ADDR": "192.0.2.7",
    "HTTP_X_REQUEST_ID": "click-that-failed", "HTTP_AUTHORIZATION": "Bearer person-token",
    "HTTP_COOKIE": "theirs=person-cookie", "CONTENT_TYPE": "application/x-www-form-urlencoded", "CONTENT_LENGTH": "18",
    "wsgi.input": io.BytesIO(b"field=person-field"), "wsgi.errors": sys.stderr, "wsgi.url_scheme": "http",
}
def start(status, headers, *more):
    print(status[:3], dict(headers)["X-Request-ID"])
application(environ, start)
"""


def test_an_error_of_a_view_goes_with_its_ids_and_nothing_of_the_person(sentry, tmp_path):
    done = run(["-c", WEB % MESSAGE], tmp_path, SENTRY_DSN=sentry.dsn, SENTRY_ENVIRONMENT="lab")

    assert done.stdout.split() == ["500", "click-that-failed"], done.stderr
    event = of(sentry)
    assert event["tags"] == {"part": "web", "request_id": "click-that-failed"}
    assert event["environment"] == "lab" and event["request"] == {"method": "POST"}
    assert event["transaction"] == "/share/{key}"
    (said,) = event["exception"]["values"]
    assert (said["type"], said["value"]) == (
        "RuntimeError", "cannot use redis://[removed]@127.0.0.1:1/0 with [removed] and [removed]",
    )  # fmt: skip
    assert "192.0.2.7" not in json.dumps(event) and "user" not in event


WORKER = """
import sys
sys.argv = ["celery", "-A", "worker.app", "worker"]
from worker.app import app
@app.task(name="worker.tasks.refit", shared=False)
def refit(run_id):
    raise RuntimeError(%r)
refit.apply(args=("abc",), headers={"request_id": "click-that-failed"})
import sentry_sdk
sentry_sdk.flush(5)
"""


def test_an_error_of_a_task_goes_with_task_run_and_click(sentry, tmp_path):
    done = run(["-c", WORKER % MESSAGE], tmp_path, SENTRY_DSN=sentry.dsn)

    assert done.returncode == 0, done.stderr
    tags = of(sentry)["tags"]
    assert {name: tags[name] for name in ("part", "run", "task", "request_id")} == {
        "part": "worker", "run": "abc", "task": "worker.tasks.refit", "request_id": "click-that-failed",
    }  # fmt: skip


LOGGED = """
import sys
sys.argv = ["celery", "-A", "worker.app", "worker"]
import worker.app
from worker.reconcile import _guarded
def keep_logs():
    raise OSError(%r)
print(_guarded(keep_logs))
import sentry_sdk
sentry_sdk.flush(5)
"""


@pytest.mark.deep
def test_an_error_that_a_round_survives_is_reported_too(sentry, tmp_path):
    done = run(["-c", LOGGED % MESSAGE], tmp_path, SENTRY_DSN=sentry.dsn)

    assert done.stdout.startswith("OSError"), done.stderr
    event = of(sentry)
    assert event["logger"] == "worker.reconcile" and event["exception"]["values"][0]["type"] == "OSError"


def driver(tmp_path, sentry, *arguments, **more):
    secrets = tmp_path / "secrets.json"
    secrets.write_text('{"MY_HUB": "hub-secret-value"}')
    return run(
        ["-m", "training", "run", *arguments], tmp_path, SENTRY_DSN=sentry.dsn, HEADROOM_SECRETS_FILE=str(secrets),
        HEADROOM_RUN="abc", HEADROOM_ATTEMPT="2", HEADROOM_REQUEST_ID="click-that-failed", **more,
    )  # fmt: skip


def test_an_error_of_a_driver_goes_with_run_and_attempt_and_without_its_projects_secrets(sentry, tmp_path):
    done = driver(tmp_path, sentry, "tiny/scalerl", "--run-dir", "/dev/null/hub-secret-value")

    assert done.returncode != 0 and "hub-secret-value" in done.stderr
    event = of(sentry)
    assert event["tags"] == {
        "part": "driver",
        "run": "abc",
        "attempt": "2",
        "request_id": "click-that-failed",
    }
    assert event["exception"]["values"][-1]["type"] == "NotADirectoryError"


def test_a_recipe_that_cannot_be_used_is_no_error_of_ours(sentry, tmp_path):
    done = driver(tmp_path, sentry, "gone.yaml", "--run-dir", str(tmp_path / "run"))

    assert done.returncode == 1 and sentry.raw == []


@pytest.mark.deep
def test_without_the_variable_nothing_is_imported(tmp_path):
    code = WEB.replace("    print(", "    print('sentry_sdk' in sys.modules)\n    print(") % MESSAGE
    done = run(["-c", code], tmp_path)

    assert done.stdout.split() == ["False", "500", "click-that-failed"], done.stderr


@pytest.mark.parametrize(
    "dsn", ["sentry.example", "https://sentry.example/1", "https://secret-key@sentry.example/x/"]
)
def test_a_broken_dsn_is_said_without_its_key_and_stops_nothing(dsn, tmp_path):
    code = "import logging; logging.basicConfig(); from observability import errors; print(errors.install('web'))"
    done = run(["-c", code], tmp_path, SENTRY_DSN=dsn)

    assert done.stdout.strip() == "False", done.stderr
    assert "SENTRY_DSN is no DSN" in done.stderr and "secret-key" not in done.stderr


def test_texts_that_are_secret_are_taken_out_wherever_they_are(monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", "value-of-a-token")
    monkeypatch.setenv("SHORT_TOKEN", "word")
    monkeypatch.setattr(errors, "_hidden", {"value-of-a-token-and-more"})

    assert errors.without_secrets(
        {"a": ["x value-of-a-token y", ("value-of-a-token-and-more",)], "b": "word", "c": 3,
         "d": "postgresql://me:pw@host/db", "e": "Authorization: Bearer abc.def"}
    ) == {
        "a": ["x [removed] y", ["[removed]"]], "b": "word", "c": 3,
        "d": "postgresql://[removed]@host/db", "e": "Authorization: Bearer [removed]",
    }  # fmt: skip
