import json
import logging
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headroom
from headroom.run import Finished, Run
from headroom.syncing import sync
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


def test_a_time_without_an_offset_is_this_machines(begin: Begin, journal_path: Path) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5)
    begin().log({"a": 1}, step=1, time=moment)

    assert datetime.fromisoformat(journal_records(journal_path)[0]["time"]) == moment.astimezone()


@pytest.mark.parametrize(
    "moment", ["yesterday", 3, datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))], ids=repr
)
def test_a_time_that_is_none_costs_no_value(begin: Begin, journal_path: Path, caplog, moment: Any) -> None:
    begin().log({"a": 1}, step=1, time=moment)

    said = datetime.fromisoformat(journal_records(journal_path)[0]["time"])
    assert abs(datetime.now(UTC) - said) < timedelta(minutes=5) and "no time that can be kept" in caplog.text


def test_a_resumed_run_goes_on_with_what_is_known_and_what_is_not(begin: Begin, journal_path: Path) -> None:
    with begin() as run:
        run.log({"a": 1}, step=1, compute={"tokens": 10})
    with begin(resumed_from_step=1) as again:
        again.log({"a": 1}, step=2)
        assert again.compute == {"device_hours": None, "flops": None, "tokens": 10}
    assert journal_records(journal_path)[-1]["compute"]["tokens"] == 10


def test_values_that_are_not_finite_are_null_and_no_numbers_are_dropped_and_each_is_named_once(
    begin: Begin, journal_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = begin()
    for step in range(3):
        run.log({"good": np.float32(0.5), "bad": np.float32(math.nan), "big": -math.inf, "text": "nan"}, step)

    assert [r["metrics"] for r in journal_records(journal_path)] == [
        {"good": 0.5, "bad": None, "big": None}
    ] * 3
    named = [r.getMessage() for r in caplog.records]
    found = sorted(name for name in ("bad", "big", "text") for line in named if f"'{name}'" in line)
    assert found == ["bad", "big", "text"]


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


@pytest.mark.parametrize("metrics", [None, 3])
def test_log_never_raises(
    begin: Begin, journal_path: Path, caplog: pytest.LogCaptureFixture, metrics: Any
) -> None:
    run = begin()
    run.log(metrics, step=1)
    run.log({"after": 1}, step=5)

    assert [r["step"] for r in journal_records(journal_path)] == [5]
    assert "could not be written" in caplog.text


@pytest.mark.parametrize("step", ["x", [], math.nan, math.inf, 2**70], ids=repr)
def test_a_step_that_is_none_costs_no_value(begin: Begin, journal_path: Path, caplog, step: Any) -> None:
    run = begin()
    run.log({"a": 1}, step=7)
    for _ in range(2):
        run.log({"a": 2}, step=step)

    assert [r["step"] for r in journal_records(journal_path)] == [7, 8, 9]
    assert caplog.text.count("no whole number of 64 bits") == 1


def test_each_name_that_cannot_be_used_is_named(begin: Begin, caplog: pytest.LogCaptureFixture) -> None:
    run = begin()
    for _ in range(2):
        run.log({"": 1, 7: 2, "good": 3})

    assert caplog.text.count("printable characters, not ''") == 1
    assert caplog.text.count("printable characters, not 7") == 1
    assert run.finish() == Finished(
        True, 0, 4, "a metric's name has 1 to 250 printable characters, not 7: dropped"
    )


@pytest.mark.parametrize("name", ["eval/pass_rate", "eval/code/hard/pass_rate"])
def test_a_pass_rate_that_is_none_costs_only_itself(
    begin: Begin, server: FakeServer, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    run = begin()
    run.log({name: 1.7, "loss": 1.7}, step=1)
    run.log({name: 1.0, "eval/pass_rate_of": 2}, step=2)

    done = run.finish()
    assert not done and (done.sent, done.records, done.values) == (True, 0, 1)
    assert f"metric '{name}' is 1.7, not between 0 and 1" in caplog.text
    stored = [record["metrics"] for record in server.records.values()]
    assert stored == [{"loss": 1.7}, {name: 1.0, "eval/pass_rate_of": 2}]


def test_steps_of_64_bits_are_kept_and_others_are_the_next(
    begin: Begin, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    run = begin()
    for step in (3_000_000_000, None, 2**63, -5, None, 2**63 - 1, None):
        run.log({"a": 1}, step)

    assert run.finish()
    expected = [3_000_000_000, 3_000_000_001, 3_000_000_002, -5, 3_000_000_003, 2**63 - 1, 2**63 - 1]
    assert server.steps() == expected
    assert "no whole number of 64 bits" in caplog.text


def test_many_metrics_are_several_records_and_an_error_stays_beside_its_value(
    begin: Begin, server: FakeServer
) -> None:
    metrics = {f"m{i}": i for i in range(2500)} | {f"m{i}_stderr": 0.5 for i in range(2500)} | {"z_stderr": 1}
    run = begin()
    run.log(metrics, step=3)

    assert run.finish()
    parts = [record["metrics"] for record in server.records.values()]
    assert max(map(len, parts)) <= 1000 and len(parts) == 6
    assert {name: value for part in parts for name, value in part.items()} == metrics
    assert all((f"m{i}" in part) == (f"m{i}_stderr" in part) for part in parts for i in range(2500))
    assert server.steps() == [3] * 6


@pytest.mark.parametrize("huge", [10**400, -(10**5000)], ids=["400 digits", "5000 digits"])
def test_an_integer_beyond_all_floats_costs_only_itself(begin: Begin, server: FakeServer, huge: int) -> None:
    run = begin()
    run.log({"huge": huge, "large": 2**70, "good": 1}, compute={"tokens": huge})

    assert run.finish().values == 2
    assert server.records["r1", 1, 0]["metrics"] == {"large": 2.0**70, "good": 1}
    assert (
        "refused",
        {"attempt": 1, "refused_records": 0, "refused_values": 2, "reason": run.finish().reason},
    ) in (server.notices)


def test_what_a_description_holds_is_readable_and_what_cannot_be_is_named_once(
    begin: Begin, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"path": Path("/data"), "limit": math.inf, "hook": object(), "nested": {"bad": object()}}
    begin(
        run=None, name="n" * 200, model="a\nb", seed=2**40, config=config, device={np.int64(2): math.nan}
    ).finish()

    made = server.notices[0][1]
    assert made == {
        "tracked": True, "name": "n" * 120, "model": "a b",
        "config": {"path": "/data", "limit": "inf", "nested": {}},
    }  # fmt: skip
    assert caplog.text.count("not kept of the run's description") == 1
    assert "config.hook, config.nested.bad, seed" in caplog.text
    assert server.notices[1][1]["device"] == {"2": "nan"}


def test_a_run_whose_configuration_is_refused_is_made_without_it(
    begin: Begin, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse = lambda path, body: (413, "too large") if "config" in body else None
    run = begin(run=None, name="mine", config={"a": 1})

    assert run.id == "made1" and run.finish()
    assert "made without its configuration: too large" in caplog.text


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


def test_a_server_that_is_away_at_the_start_gets_the_run_once_it_answers(
    begin: Begin, server: FakeServer, journal_path: Path
) -> None:
    server.refuse = lambda path, body: (503, "starting")
    run = begin(run=None, name="mine")
    run.log({"a": 1}, step=1)
    assert run.id is None
    server.refuse = lambda path, body: None

    assert run.finish()
    assert run.id == "made1" and server.steps("made1") == [1]
    assert [what for what, _ in server.notices] == ["runs", "start", "finish"]
    with begin(run=None) as again:
        assert again.id == "made1"


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
    assert server.notices[1:] == [("finish", {"attempt": 1, "state": "succeeded", "message": ""})]


RUN = """
import os, signal, sys, headroom
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
headroom.init(run="r1", journal={journal!r}, url={url!r}, token="hr_test")
headroom.log({{"a": 1}}, step=1)
{ending}
"""


@pytest.mark.parametrize(
    ("ending", "status", "state", "message"),
    [
        ("raise ValueError('bad lr')", 1, "failed", "ValueError: bad lr"),
        ("sys.exit(3)", 3, "failed", "the process ended with status 3"),
        ("sys.exit()", 0, "succeeded", ""),
        ("raise KeyboardInterrupt", -signal.SIGINT, "cancelled", "interrupted"),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, "cancelled", "stopped by SIGTERM"),
        ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "cancelled", "interrupted"),
    ],
)
def test_a_run_ends_as_its_process_does(
    server: FakeServer, journal_path: Path, ending: str, status: int, state: str, message: str
) -> None:
    result = run_python(RUN.format(journal=str(journal_path), url=server.url, ending=ending))

    assert result.returncode == status, result.stderr
    assert server.steps() == [1]
    assert server.notices[1:] == [("finish", {"attempt": 1, "state": state, "message": message})]


def test_all_open_runs_of_a_process_end(server: FakeServer, journal_path: Path) -> None:
    ending = (
        f"headroom.init(run='r2', journal={str(journal_path) + '2'!r}, url={server.url!r}, token='hr_test')"
    )
    result = run_python(RUN.format(journal=str(journal_path), url=server.url, ending=ending))

    assert result.returncode == 0, result.stderr
    assert [what for what, _ in server.notices].count("finish") == 2


def test_a_trainer_that_handles_sigterm_itself_goes_on_doing_so(
    server: FakeServer, journal_path: Path
) -> None:
    ending = "signal.signal(signal.SIGTERM, lambda *_: print('saved')); os.kill(os.getpid(), signal.SIGTERM)"
    result = run_python(RUN.format(journal=str(journal_path), url=server.url, ending=ending))

    assert (result.stdout, result.returncode) == ("saved\n", 0), result.stderr
    assert server.notices[-1][1]["state"] == "succeeded"


def test_a_forked_child_dies_of_sigterm_at_once_and_ends_no_run(
    server: FakeServer, journal_path: Path
) -> None:
    ending = """
pid = os.fork()
if pid == 0:
    os.kill(os.getpid(), signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
headroom.log({"a": 2}, step=2)
"""
    result = run_python(RUN.format(journal=str(journal_path), url=server.url, ending=ending))

    assert (result.stdout, result.returncode) == (f"{-signal.SIGTERM}\n", 0), result.stderr
    assert server.steps() == [1, 2]
    assert [body["state"] for what, body in server.notices if what == "finish"] == ["succeeded"]


@pytest.mark.parametrize("ending", ["", "os.kill(os.getpid(), signal.SIGTERM)"], ids=["exit", "SIGTERM"])
def test_a_server_that_is_away_holds_no_process_up_and_is_told_the_end_later(
    server: FakeServer, journal_path: Path, ending: str
) -> None:
    away = "headroom.ending.WAIT_SECONDS = 0.2\n" + ending
    began = time.monotonic()
    run_python(RUN.format(journal=str(journal_path), url="http://127.0.0.1:9", ending=away))
    assert time.monotonic() - began < 30  # a process that waits for the server waits for ever

    (one,) = sync(journal_path, server.url, "hr_test")
    assert one.problem == "" and server.steps() == [1]
    assert server.notices[-1][1]["state"] == ("cancelled" if ending else "succeeded")


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
