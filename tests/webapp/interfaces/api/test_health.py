"""/healthz with the real database, parts that are not there, and parts that do not answer."""

import socket
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from webapp.interfaces.api import health
from webapp.record.health.models import LastRound
from webapp.record.health.services import note_round

pytestmark = pytest.mark.django_db(transaction=True)  # the parts are asked from threads


def test_parts_that_are_not_configured_do_no_harm(client, settings):
    settings.CELERY_BROKER_URL = None

    response = client.get("/healthz")

    assert response.status_code == 200
    assert response.json() == {
        "status": "ok",
        "database": "ok",
        "broker": "not configured",
        "worker": "not configured",
        "beat": "not configured",
        "ray": "not configured",
    }


def test_parts_that_refuse_are_named(client, settings, free_port, monkeypatch):
    settings.CELERY_BROKER_URL = f"redis://:secret@127.0.0.1:{free_port}/0"
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{free_port}")

    response = client.get("/healthz")

    body = response.json()
    assert response.status_code == 200  # pages are served
    assert (body["status"], body["database"]) == ("degraded", "ok")
    assert all(body[part].startswith("does not answer") for part in ("broker", "worker", "ray"))
    assert b"secret" not in response.content


def beat_after(client, **ago):
    note_round(timezone.now() - timedelta(**ago), {})
    LastRound.objects.update(seconds=1.0)
    return client.get("/healthz").json()["beat"]


def test_beat_is_what_its_newest_round_says(client, settings, free_port):
    settings.CELERY_BROKER_URL = f"redis://:secret@127.0.0.1:{free_port}/0"

    assert client.get("/healthz").json()["beat"] == "no round of reconciliation yet"
    assert beat_after(client, seconds=3) == "ok"
    assert beat_after(client, seconds=301) == "no round of reconciliation for 5 min"


def test_a_part_that_hangs_is_given_up_within_a_second(client, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("RAY_ADDRESS", f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()

        response = client.get("/healthz")

    assert response.json()["ray"].startswith(("no answer within", "does not answer"))
    assert time.monotonic() - started < 2


def test_each_question_is_answered_by_itself(client, settings, free_port, monkeypatch):
    """A load balancer asks for `ready`: it sends nobody away because the worker is busy."""
    settings.CELERY_BROKER_URL = f"redis://:secret@127.0.0.1:{free_port}/0"
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    answers = {name: client.get(f"/healthz/{name}") for name in ("live", "ready", "background")}

    assert {name: answer.status_code for name, answer in answers.items()} == {
        "live": 200, "ready": 200, "background": 503,
    }  # fmt: skip
    assert answers["live"].json() == {"status": "ok"}
    assert answers["ready"].json() == {"status": "ok", "database": "ok"}
    assert client.get("/healthz/anything").status_code == 404


def test_without_its_database_it_lives_and_is_not_ready(client, monkeypatch):
    monkeypatch.setitem(health.CHECKS, "database", lambda: "does not answer")

    assert client.get("/healthz/live").status_code == 200
    assert client.get("/healthz/ready").status_code == client.get("/healthz").status_code == 503


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
