import json
import logging

import pytest
from django.test import Client
from django.urls import resolve

from observability import context, logs
from tests.worker.conftest import broker, make_run, with_broker  # noqa: F401 (fixtures)
from webapp.base import task_queue
from webapp.operation.observing.middleware import line_of
from webapp.record.runs.models import Dispatch
from worker import names

pytestmark = pytest.mark.django_db
ID = "click-0123456789"


def test_an_answer_says_the_id_that_was_asked_with():
    answer = Client(headers={"X-Request-ID": ID}).get("/sign-in")

    assert answer["X-Request-ID"] == ID


@pytest.mark.parametrize("sent", ["", "x", "a b c d e f", "0" * 65])
@pytest.mark.parametrize("path", ["/sign-in", "/no-such-page", "/api/v1/runs"])
def test_without_a_usable_one_there_is_a_new_one_on_every_answer(sent, path):
    answer = Client(headers={"X-Request-ID": sent}).get(path)

    assert context.is_request_id(answer["X-Request-ID"]) and answer["X-Request-ID"] != sent


def test_each_request_is_a_line_and_a_key_in_a_path_is_not_in_it(monkeypatch, caplog, client):
    monkeypatch.setenv(logs.VARIABLE, "json")
    caplog.set_level(logging.INFO, "webapp.requests")

    client.get("/share/very-secret-key?also=secret", headers={"X-Request-ID": ID})
    client.get("/api/v1/runs/abc/records?cursor=secret")

    first, second = [record.fields for record in caplog.records if record.name == "webapp.requests"]
    assert "secret" not in json.dumps([first, second])
    assert second["status"] == 401 and second["path"] == "/api/v1/runs/abc/records"
    assert second["route"].startswith("/api/v1/runs/<") and second["milliseconds"] > 0


def test_public_addresses_are_said_as_patterns(rf):
    request = rf.get("/s/secret")
    request.resolver_match = resolve("/s/secret")

    assert line_of(request, type("Answer", (), {"status_code": 200})(), 0.01) == {
        "method": "GET", "route": "/s/<slug:token>", "status": 200, "milliseconds": 10.0,
    }  # fmt: skip


def test_a_hint_and_a_row_of_the_outbox_carry_the_click(
    with_broker, monkeypatch, django_capture_on_commit_callbacks  # noqa: F811
):  # fmt: skip
    sent = []
    monkeypatch.setattr(
        task_queue.producer(with_broker),
        "send_task",
        lambda task, **said: sent.append((task, said["headers"])),
    )
    with django_capture_on_commit_callbacks(execute=True), context.bound(request_id=ID):
        run = make_run()

    assert (names.DISPATCH, {"request_id": ID}) in sent
    assert Dispatch.objects.get(run=run).request_id == ID
