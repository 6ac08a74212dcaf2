import json
import logging
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headroom
from headroom.run import Run
from tests.headroom.fake_server import FakeServer
from tests.headroom.subprocesses import environment, run_python

Begin = Callable[..., Run]


def journal_records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_record_has_exactly_the_fields_of_the_api(
    begin: Begin, journal_path: Path, server: FakeServer
) -> None:
    compute = {"device_hours": 0.5, "flops": 2e9, "tokens": 300}
    run = begin(attempt=3)
    run.log({"eval/pass_rate": 0.25}, step=4, compute=compute)
    run.finish()

    record = journal_records(journal_path)[0]
    assert record.pop("crc")  # the line's own; it is not sent
    assert record == server.records["r1", 3, 0]
    assert record.pop("time").endswith("+00:00")
    assert record == {
        "attempt": 3,
        "seq": 0,
        "step": 4,
        "compute": compute,
        "metrics": {"eval/pass_rate": 0.25},
    }


def test_compute_that_is_left_out_stays_as_last_reported(begin: Begin, journal_path: Path) -> None:
    run = begin()
    run.log({"a": 1}, step=0)
    run.log({"a": 1}, step=1, compute={"device_hours": 1.0, "tokens": 10})
    run.log({"a": 1}, step=2, compute={"tokens": 20, "flops": -1, "unknown": 3})
    run.log({"a": 1}, step=3)

    assert [r["compute"] for r in journal_records(journal_path)] == [
        {"device_hours": 0, "flops": 0, "tokens": 0},  # nothing at step 0
        {"device_hours": 1.0, "flops": None, "tokens": 10},
        {"device_hours": 1.0, "flops": None, "tokens": 20},
        {"device_hours": 1.0, "flops": None, "tokens": 20},
    ]


def test_compute_that_is_none_is_unknown_from_then_on(begin: Begin, journal_path: Path) -> None:
    run = begin()
    run.log({"a": 1}, step=1, compute={"device_hours": 1.0, "tokens": 10})
    run.log({"a": 1}, step=2, compute={"tokens": None})
    run.log({"a": 1}, step=3)

    assert [r["compute"]["tokens"] for r in journal_records(journal_path)] == [10, None, None]


def test_a_record_may_say_when_it_was(begin: Begin, journal_path: Path) -> None:
    begin().log({"a": 1}, step=1, time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))

    assert journal_records(journal_path)[0]["time"] == "2026-01-02T03:04:05.000+00:00"


def test_a_resumed_run_goes_on_with_what_is_known_and_what_is_not(begin: Begin, journal_path: Path) -> None:
    with begin() as run:
        run.log({"a": 1}, step=1, compute={"tokens": 10})
    with begin(resumed_from_step=1) as again:
        again.log({"a": 1}, step=2)
        assert again.compute == {"device_hours": None, "flops": None, "tokens": 10}
    assert journal_records(journal_path)[-1]["compute"]["tokens"] == 10


def test_values_that_are_no_finite_numbers_are_dropped_and_named_once(
    begin: Begin, journal_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = begin()
    for step in range(3):
        run.log({"good": np.float32(0.5), "bad": math.nan, "text": "0.3", "list": [1]}, step=step)

    assert [r["metrics"] for r in journal_records(journal_path)] == [{"good": 0.5}] * 3
    named = [r.getMessage() for r in caplog.records]
    assert sorted(name for name in ("bad", "text", "list") for line in named if f"'{name}'" in line) == [
        "bad",
        "list",
        "text",
    ]


def test_names_that_the_server_would_refuse_cost_only_that_metric(begin: Begin, journal_path: Path) -> None:
    begin().log({"good": 1, "": 2, "x" * 251: 3, "new\nline": 4}, step=0)

    assert journal_records(journal_path)[0]["metrics"] == {"good": 1}


def test_without_a_step_it_is_the_next_and_an_evaluation_is_of_the_newest(
    begin: Begin, journal_path: Path
) -> None:
    with begin() as run:
        run.log({"a": 1})
        run.log({"a": 2}, 7)
        run.log({"late": 1}, step=3)
        run.log({"a": 3})
        run.log_evaluation(0.5, n_prompts=10)
    with begin() as again:  # the same attempt, in another process
        again.log({"a": 4})
    with begin(resumed_from_step=7) as resumed:
        resumed.log({"a": 5})
    with begin(restarted=True) as anew:
        anew.log({"a": 6})

    assert [r["step"] for r in journal_records(journal_path)] == [0, 7, 3, 8, 8, 9, 8, 0]


@pytest.mark.parametrize(("metrics", "step"), [(None, 1), ({"a": 1}, "x"), ({"a": 1}, []), (3, 1)], ids=repr)
def test_log_never_raises(
    begin: Begin, journal_path: Path, caplog: pytest.LogCaptureFixture, metrics: Any, step: Any
) -> None:
    run = begin()
    run.log(metrics, step=step)
    run.log({"after": 1}, step=5)

    assert [r["step"] for r in journal_records(journal_path)] == [5]
    assert "could not be written" in caplog.text


def test_unwritable_journal_does_not_stop_training(
    begin: Begin, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    run = begin()
    monkeypatch.setattr("headroom.journal.os.write", refuse)
    run.log({"a": 1}, step=1)

    assert "No space left on device" in caplog.text


def test_records_reach_the_server_with_the_token(begin: Begin, server: FakeServer) -> None:
    run = begin(attempt=2, resumed_from_step=10, device={"kind": "cpu", "count": 2})
    for step in range(11, 14):
        run.log({"a": step}, step=step)

    assert run.finish()
    assert server.steps(attempt=2) == [11, 12, 13]
    assert server.tokens == {"Bearer hr_test"}
    assert server.notices == [
        ("start", {"attempt": 2, "resumed_from_step": 10, "device": {"kind": "cpu", "count": 2}}),
        ("finish", {"attempt": 2, "state": "succeeded", "message": ""}),
    ]


def test_without_a_server_only_the_journal_is_written(journal_path: Path) -> None:
    run = headroom.init(journal=journal_path)
    headroom.log({"a": 1}, step=1)

    assert run.id is None
    assert headroom.finish()
    assert [r["step"] for r in journal_records(journal_path)] == [1]


def test_new_run_is_made_at_the_server_and_continued_by_its_journal(
    begin: Begin, server: FakeServer, journal_path: Path
) -> None:
    first = begin(run=None, name="mine", task="t", model="m", config={"lr": 1})
    first.log({"a": 1}, step=1)
    first.finish()
    second = begin(run=None, name="mine", resumed_from_step=1)
    second.log({"a": 2}, step=2)
    second.finish()

    made = [body for what, body in server.notices if what == "runs"]
    assert made == [{"tracked": True, "name": "mine", "task": "t", "model": "m", "config": {"lr": 1}}]
    assert (first.id, second.id, second.attempt) == ("made1", "made1", 2)
    assert (server.steps("made1", 1), server.steps("made1", 2)) == ([1], [2])


@pytest.mark.parametrize(
    ("error", "state", "message"),
    [
        (None, "succeeded", ""),
        (ValueError("bad lr"), "failed", "ValueError: bad lr"),
        (KeyboardInterrupt(), "cancelled", "interrupted"),
    ],
    ids=["end", "error", "ctrl-c"],
)
def test_context_manager_says_how_it_ended(
    begin: Begin, server: FakeServer, error: BaseException | None, state: str, message: str
) -> None:
    try:
        with begin():
            if error:
                raise error
    except (ValueError, KeyboardInterrupt) as caught:
        assert caught is error

    assert server.notices[-1] == ("finish", {"attempt": 1, "state": state, "message": message})


def test_known_run_begins_without_a_server(begin: Begin, server: FakeServer) -> None:
    server.stop()
    run = begin()
    run.log({"a": 1}, step=1)

    assert not run.finish(timeout=0.2)
    assert run.journal_path.read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "localhost:8000"}, "must start with http"),
        ({"token": None}, "HEADROOM_TOKEN"),
    ],
    ids=["url", "token"],
)
def test_unusable_settings_are_refused_by_init(begin: Begin, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        begin(**settings)


def test_new_run_that_cannot_be_made_is_an_error_and_frees_the_journal(
    begin: Begin, server: FakeServer
) -> None:
    server.refuse = lambda path, body: (422, "task is unknown") if path.endswith("/runs") else None
    with pytest.raises(headroom.ServerError, match="task is unknown"):
        begin(run=None, task="nonsense")

    server.refuse = lambda path, body: None
    assert begin(run=None).finish()


def test_settings_come_from_the_environment(
    server: FakeServer, journal_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("hr_file\n")
    monkeypatch.setenv("HEADROOM_URL", server.url + "/")
    monkeypatch.setenv("HEADROOM_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("HEADROOM_RUN", "r7")
    monkeypatch.setenv("HEADROOM_ATTEMPT", "4")
    headroom.init(journal=journal_path)
    headroom.log({"a": 1}, step=1)

    assert headroom.finish()
    assert server.steps("r7", 4) == [1]
    assert server.tokens == {"Bearer hr_file"}


KILLED = """
import os, signal, headroom
headroom.init(run="r1", journal={journal!r}, url={url!r}, token="hr_test")
for step in range(300):
    headroom.log({{"a": step}}, step=step)
print("logged", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_right_after_log_loses_nothing(begin: Begin, server: FakeServer, journal_path: Path) -> None:
    """The killed process's unsent records are sent by the next process with the same journal."""
    result = run_python(KILLED.format(journal=str(journal_path), url=server.url))
    assert (result.stdout, result.returncode) == ("logged\n", -signal.SIGKILL), result.stderr
    assert [r["step"] for r in journal_records(journal_path)] == list(range(300))

    again = begin(attempt=2, resumed_from_step=299)
    again.log({"a": 300}, step=300)
    assert again.finish()

    assert server.steps(attempt=1) == list(range(300))
    assert server.steps(attempt=2) == [300]


def test_process_that_ends_without_finish_still_sends(server: FakeServer, journal_path: Path) -> None:
    code = f"""
import headroom
headroom.init(run="r1", journal={str(journal_path)!r}, url={server.url!r}, token="hr_test")
headroom.log({{"a": 1}}, step=1)
"""
    result = run_python(code)

    assert result.returncode == 0, result.stderr
    assert server.steps() == [1]
    assert [what for what, _ in server.notices] == ["start"]


def test_forked_child_writes_nothing(server: FakeServer, journal_path: Path) -> None:
    code = f"""
import os, headroom
run = headroom.init(run="r1", journal={str(journal_path)!r}, url={server.url!r}, token="hr_test")
run.log({{"a": 1}}, step=1)
pid = os.fork()
if pid == 0:
    run.log({{"a": 2}}, step=2)
    run.finish()
    raise SystemExit
os.waitpid(pid, 0)
run.log({{"a": 3}}, step=3)
run.finish()
"""
    result = run_python(code)

    assert result.returncode == 0, result.stderr
    assert server.steps() == [1, 3]
    assert [what for what, _ in server.notices] == ["start", "finish"]


def test_client_needs_nothing_heavy() -> None:
    result = run_python(
        "import sys, headroom; print([m for m in sys.modules if m in ('django','torch','ray','numpy')])"
    )

    assert result.stdout == "[]\n", result.stderr


def test_log_is_cheap_while_the_server_hangs(begin: Begin, server: FakeServer) -> None:
    """A bound far above the usual 20 microseconds: it fails when log() waits for the network, not when it is slow."""
    released = threading.Event()
    server.refuse = lambda path, body: (503, "later") if released.wait(30) else None
    run = begin()
    started = time.monotonic()
    for step in range(1000):
        run.log({"a": step}, step=step)
    elapsed = time.monotonic() - started
    released.set()
    server.refuse = lambda path, body: None

    assert elapsed < 2
    assert run.finish()
    assert server.steps() == list(range(1000))


def test_hard_kill_of_a_busy_sender_keeps_the_journal_whole(server: FakeServer, journal_path: Path) -> None:
    code = f"""
import itertools, headroom
headroom.init(run="r1", journal={str(journal_path)!r}, url={server.url!r}, token="hr_test")
for step in itertools.count():
    headroom.log({{"a": step}}, step=step)
    print(step, flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        server.wait_for(lambda: len(server.records) > 100)
        process.kill()
        returned = [int(line) for line in process.stdout.read().split("\n")[:-1]]

    steps = [r["step"] for r in journal_records(journal_path)]
    assert steps[: len(returned)] == returned
    assert set(server.steps()) <= set(steps)


@pytest.fixture(autouse=True)
def quiet_root_logger(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="headroom")
