"""What is said of a run after it was begun: `Run.describe`."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from headroom import about
from headroom.beginning import init
from headroom.run import Run
from headroom.syncing import sync
from tests.headroom.fake_server import FakeServer

Begin = Callable[..., Run]


def test_what_is_said_later_is_sent_together_and_before_the_end(begin: Begin, server: FakeServer) -> None:
    run = begin()
    run.describe(name="warm", config={"lr": 1e-6, "top": math.inf, "path": Path("a")})
    run.describe(tags=["paper"], config={"lr": 2e-6})
    assert run.finish()

    said = [body for what, body in server.notices if what == "describe"]
    together = {key: value for body in said for key, value in body.items() if key != "config"}
    assert together == {"name": "warm", "tags": ["paper"]}
    assert said[-1]["config"]["lr"] == 2e-6
    (first,) = [body["config"] for body in said if "top" in body["config"]]
    assert (first["top"].lower()[:3], first["path"]) == ("inf", "a")
    assert [what for what, _ in server.notices][-1] == "finish"
    assert not about.load(run.journal_path).unsaid  # not said again by `sync`
    run.describe(name="late")  # says nothing, and raises nothing


def test_what_is_said_later_waits_for_the_server_and_for_another_process(
    begin: Begin, server: FakeServer
) -> None:
    server.refuse = lambda path, body: (503, "not now")
    run = begin()
    run.describe(config={"lr": 1e-6})
    assert not run.finish(timeout=0.1)
    assert about.load(run.journal_path).unsaid

    server.refuse = lambda path, body: None
    assert run.finish()
    assert ("describe", {"config": {"lr": 1e-6}}) in server.notices


def test_an_older_server_that_cannot_be_told_more_gets_the_rest(
    begin: Begin, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse = lambda path, body: (404, "no such address") if path.endswith("/describe") else None
    run = begin()
    run.describe(config={"lr": 1e-6})
    run.log({"a": 1})

    assert run.finish()
    assert server.steps() == [0] and "config not sent" in caplog.text


def test_what_was_said_offline_is_sent_once(server: FakeServer, tmp_path: Path) -> None:
    run = init(name="away", journal=tmp_path / "a.jsonl", mode="offline", config={"lr": 0.1})
    run.describe(name="home", config={"batch": 8})
    run.finish()

    list(sync(tmp_path, server.url, "hr_test"))
    list(sync(tmp_path, server.url, "hr_test"))

    described = [body for what, body in server.notices if what == "describe"]
    assert described == [{"name": "home", "config": {"batch": 8}}]


def test_tags_are_said_at_the_beginning_too(begin: Begin, server: FakeServer) -> None:
    run = begin(tags=["paper", "seed-1"])
    assert run.finish()

    assert [body for what, body in server.notices if what == "describe"] == [{"tags": ["paper", "seed-1"]}]
