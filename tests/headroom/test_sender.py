import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headroom import sender
from headroom.journal import Journal
from headroom.run import Run
from tests.headroom.fake_server import FakeServer

Begin = Callable[..., Run]


def log_steps(run: Run, *steps: int) -> None:
    for step in steps:
        run.log({"a": step}, step=step)


def test_absent_server_gets_everything_when_it_comes_back(
    begin: Begin, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.stop()
    run = begin()
    log_steps(run, 0, 1, 2)
    back = FakeServer(server.port)
    log_steps(run, 3)

    assert run.finish()
    back.stop()
    assert back.steps() == [0, 1, 2, 3]
    assert [what for what, _ in back.notices] == ["start", "finish"]
    assert caplog.text.count("cannot be reached") <= 1  # once, not once a try


def test_the_end_never_overtakes_a_record_that_was_logged_before_it(begin: Begin, server: FakeServer) -> None:
    """The server takes nothing of an attempt that has ended."""
    is_asked, may_answer = threading.Event(), threading.Event()

    def hold(path: str, body: dict[str, Any]) -> None:
        if body.get("records"):
            is_asked.set()
            may_answer.wait(5)

    server.refuse = hold
    run = begin()
    log_steps(run, 0)
    assert is_asked.wait(5)
    log_steps(run, 1)
    assert not run.finish(timeout=0)
    may_answer.set()

    assert run.finish()
    sent = [path.rpartition("/")[2] for path, _ in server.requests]
    assert sent == ["start", "records", "records", "finish"]


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 500, 502, 503])
def test_passing_trouble_is_retried_and_nothing_is_rejected(
    begin: Begin, server: FakeServer, status: int
) -> None:
    refusals = iter([(status, "not now")] * 3)
    server.refuse = lambda path, body: next(refusals, None)
    run = begin()
    log_steps(run, 0, 1)

    assert run.finish()
    assert server.steps() == [0, 1]
    assert not Path(f"{run.journal_path}.rejected").exists()


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_refused_record_is_set_aside_and_the_others_arrive(
    begin: Begin, server: FakeServer, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    def refuse(path: str, body: dict[str, Any]) -> tuple[int, str] | None:
        bad = [r["step"] for r in body.get("records", []) if r["step"] in (3, 11)]
        return (status, f"step {bad[0]} is bad") if bad else None

    server.refuse = refuse
    run = begin()
    log_steps(run, *range(20))

    done = run.finish()
    assert not done and (done.sent, done.records) == (True, 2) and "step 11 is bad" in done.reason
    assert server.steps() == [step for step in range(20) if step not in (3, 11)]
    told = {"attempt": 1, "refused_records": 2, "refused_values": 0, "reason": done.reason}
    # A busy machine may send them in two batches, and each notice counts all so far.
    assert [body for what, body in server.notices if what == "refused"][-1] == told
    rejected = [json.loads(line) for line in Path(f"{run.journal_path}.rejected").read_text().splitlines()]
    assert [(r["status"], r["record"]["step"]) for r in rejected] == [(status, 3), (status, 11)]
    assert "step 3 is bad" in rejected[0]["reason"]
    assert caplog.text.count("a record was refused") == 1


def test_line_that_is_no_json_is_set_aside(begin: Begin, server: FakeServer, journal_path: Path) -> None:
    journal_path.write_bytes(b"not json\n")
    run = begin()
    log_steps(run, 1)

    assert run.finish().records == 1
    assert server.steps() == [1]
    assert json.loads(Path(f"{journal_path}.rejected").read_text())["record"] == "not json\n"


def test_answer_that_got_lost_is_sent_again_and_stored_once(begin: Begin, server: FakeServer) -> None:
    lost = iter([True])

    def store_but_fail(path: str, body: dict[str, Any]) -> tuple[int, str] | None:
        if path.endswith("records") and next(lost, False):
            server._store(path.removeprefix("/api/v1/"), body)
            return 502, "the answer got lost"
        return None

    server.refuse = store_but_fail
    run = begin()
    log_steps(run, 0, 1)

    assert run.finish()
    assert server.steps() == [0, 1]
    assert len(server.arrivals) > 2


def test_page_of_a_proxy_is_no_acknowledgement(begin: Begin, server: FakeServer) -> None:
    pages = iter([(200, "please sign in")] * 2)
    server.refuse = lambda path, body: next(pages, None) if path.endswith("records") else None
    run = begin()
    log_steps(run, 0)

    assert run.finish()
    assert server.steps() == [0]


def test_next_process_sends_only_what_was_not_acknowledged(begin: Begin, server: FakeServer) -> None:
    first = begin()
    log_steps(first, 0, 1)
    first.finish()
    server.arrivals.clear()
    second = begin()
    log_steps(second, 2)
    second.finish()

    assert server.arrivals == [("r1", 1, 2)]


def test_journal_written_offline_is_sent_once_there_is_a_server(
    begin: Begin, server: FakeServer, journal_path: Path
) -> None:
    offline = begin(url=None, run=None)
    log_steps(offline, 0, 1)
    offline.finish()
    begin().finish()

    assert server.steps() == [0, 1]


def test_finish_notice_that_is_refused_does_not_hold_up(
    begin: Begin, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse = lambda path, body: (409, "the run has ended") if path.endswith("finish") else None
    run = begin()
    log_steps(run, 0)

    assert run.finish()
    assert "the run has ended" in caplog.text


def test_hung_server_holds_finish_no_longer_than_its_timeout(begin: Begin, server: FakeServer) -> None:
    released = threading.Event()
    server.refuse = lambda path, body: (503, "late") if released.wait(30) else None
    run = begin()
    log_steps(run, 0)

    assert not run.finish(timeout=0.1)
    assert not run.finish(timeout=0)  # and says the same again
    released.set()


def test_finish_may_be_waited_for_once_more(begin: Begin, server: FakeServer, journal_path: Path) -> None:
    released = threading.Event()
    server.refuse = lambda path, body: None if released.is_set() else (503, "later")
    run = begin()
    log_steps(run, 0, 1)
    assert not run.finish("failed", "out of memory", timeout=0)
    released.set()

    assert run.finish()
    assert server.steps() == [0, 1]
    assert server.notices[-1] == ("finish", {"attempt": 1, "state": "failed", "message": "out of memory"})
    Journal(journal_path).close()  # and is free


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """For journals: neither records nor what was acknowledged can be written."""

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headroom.journal.os.write", refuse)
    monkeypatch.setattr("headroom.journal.Journal.save_state", refuse)


def test_records_that_a_full_disk_refused_are_sent_at_the_end(
    begin: Begin, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin()
    log_steps(run, 0)
    fill_disk(monkeypatch)
    log_steps(run, 1, 2)

    assert run.finish()
    assert server.steps() == [0, 1, 2]
    assert [what for what, _ in server.notices] == ["start", "finish"]


def test_records_that_fit_on_the_disk_again_are_in_the_journal_at_the_end(
    begin: Begin, server: FakeServer, journal_path: Path
) -> None:
    run = begin()
    log_steps(run, 0)
    with pytest.MonkeyPatch.context() as full:
        fill_disk(full)
        log_steps(run, 1)

    assert run.finish()
    assert server.steps() == [0, 1]
    assert [json.loads(line)["step"] for line in journal_path.read_text().splitlines()] == [0, 1]


def test_trainer_that_begins_anew_is_the_next_attempt(begin: Begin, server: FakeServer) -> None:
    first = begin()
    log_steps(first, 0, 1)
    first.finish("failed", "killed")
    again = begin(restarted=True)
    log_steps(again, 0)

    assert again.finish()
    assert server.steps(attempt=2) == [0]
    assert server.notices[2] == ("start", {"attempt": 2, "resumed_from_step": None, "device": None})


def test_batches_are_bounded(begin: Begin, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "MAX_BATCH_RECORDS", 7)
    run = begin()
    log_steps(run, *range(30))

    assert run.finish()
    sizes = [len(body["records"]) for path, body in server.requests if path.endswith("records")]
    assert max(sizes) <= 7
    assert server.steps() == list(range(30))


def test_a_silent_trainer_says_that_it_lives(
    begin: Begin, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "HEARTBEAT_SECONDS", 0.02)
    run = begin()
    beats = lambda: [body for path, body in server.requests if body == {"records": []}]
    server.wait_for(lambda: len(beats()) >= 2)

    log_steps(run, 0)
    assert run.finish()
    assert server.steps() == [0]


def test_records_arrive_without_finish(begin: Begin, server: FakeServer) -> None:
    log_steps(begin(), 5)

    server.wait_for(lambda: server.steps() == [5], timeout=5)


def batches(server: FakeServer, run: str = "r1") -> list[list[int]]:
    """The steps of each batch of the run that held any."""
    sent = [body["records"] for path, body in server.requests if path.endswith(f"{run}/records")]
    return [[record["step"] for record in records] for records in sent if records]


def log_and_wait(run: Run, server: FakeServer, steps: int) -> None:
    """Another run's records, each alone: so many batches could have been sent meanwhile."""
    for step in range(steps):
        log_steps(run, step)
        server.wait_for(lambda step=step: step in server.steps("r2"))


def test_records_gather_for_as_long_as_the_server_asks_and_finish_waits_for_none_of_it(
    begin: Begin, server: FakeServer, tmp_path: Path
) -> None:
    server.gather_seconds["r1"] = 25.0
    run, other = begin(), begin(run="r2", journal=tmp_path / "other.jsonl")
    log_steps(run, 0)
    server.wait_for(lambda: server.steps() == [0])
    for step in range(1, 4):
        log_steps(run, step)
        log_and_wait(other, server, 2 * step)

    assert run.finish(timeout=10)
    assert batches(server) == [[0], [1, 2, 3]]
    assert server.notices[-1][0] == "finish"


def test_what_is_logged_while_a_batch_is_on_its_way_gathers_for_the_next(
    begin: Begin, server: FakeServer, tmp_path: Path
) -> None:
    server.gather_seconds["r1"] = 25.0
    run, other = begin(), begin(run="r2", journal=tmp_path / "other.jsonl")
    late = iter([1])

    def log_meanwhile(path: str, body: dict[str, Any]) -> None:
        if path.endswith("r1/records") and body["records"]:
            log_steps(run, *late)

    server.refuse = log_meanwhile
    log_steps(run, 0)
    server.wait_for(lambda: server.steps() == [0])
    log_and_wait(other, server, 3)

    assert batches(server) == [[0]]
    assert run.finish()
    assert batches(server) == [[0], [1]]


def test_no_server_makes_records_wait_for_ever(
    begin: Begin, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "MAX_GATHER_SECONDS", 0.02)
    server.gather_seconds["r1"] = 1e9
    run = begin()
    for step in range(3):
        log_steps(run, step)
        server.wait_for(lambda: server.steps()[-1:] == [step])  # noqa: B023  # asked before the next step

    assert run.finish()


def test_a_server_that_asks_for_less_again_gets_it(begin: Begin, server: FakeServer) -> None:
    server.gather_seconds["r1"] = 0.03
    run = begin()
    log_steps(run, 0)
    server.wait_for(lambda: server.steps() == [0])
    del server.gather_seconds["r1"]
    log_steps(run, 1)
    server.wait_for(lambda: server.steps() == [0, 1])

    assert run.finish()
    assert run._sender is not None
    assert run._sender._gather_seconds == sender.GATHER_SECONDS
