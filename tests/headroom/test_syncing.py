"""Journals that are sent later: of offline runs, and of runs whose server was away."""

import math
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headroom import about
from headroom.__main__ import main
from headroom.beginning import init
from headroom.journal import sealed
from headroom.syncing import sync
from tests.headroom.conftest import killed
from tests.headroom.fake_server import FakeServer
from tests.headroom.subprocesses import run_python

MILLISECOND = timedelta(milliseconds=1)


def offline(path: Path, *, steps: int = 3, finish: bool = True, **settings: Any) -> None:
    run = init(journal=path, mode="offline", **{"name": "away", "task": "math", "model": "8b"} | settings)
    for step in range(steps):
        run.log({"loss": step / 2}, step=step)
    if finish:
        run.finish("failed", "node lost")
    else:
        killed(run)


def test_an_offline_run_is_made_once_and_sent_whole(server: FakeServer, tmp_path: Path) -> None:
    path = tmp_path / "a" / "metrics.jsonl"
    offline(path, url=server.url, token="hr_test", config={"lr": 0.1})
    assert server.requests == []

    (first,) = sync(tmp_path, server.url, "hr_test")
    (again,) = sync(tmp_path, server.url, "hr_test")

    assert (first.run, first.problem) == ("made1", "") and first.records_bytes == path.stat().st_size
    assert (again.run, again.records_bytes) == ("made1", 0)
    made = [body for path, body in server.notices if path == "runs"]
    assert made == [{"tracked": True, "name": "away", "task": "math", "model": "8b", "config": {"lr": 0.1}}]
    assert server.steps("made1") == [0, 1, 2]
    end, *_ = [body for what, body in server.notices if what == "finish"]
    assert end.items() >= {"attempt": 1, "state": "failed", "message": "node lost"}.items()


def test_what_is_told_later_says_when_it_was(server: FakeServer, journal_path: Path) -> None:
    before = datetime.now(UTC)
    offline(journal_path)
    after = datetime.now(UTC)
    list(sync(journal_path, server.url, "hr_test"))

    began, ended = (datetime.fromisoformat(body["time"]) for what, body in server.notices if what != "runs")
    assert before - MILLISECOND <= began <= ended <= after


def test_a_server_of_before_is_told_without_the_time(server: FakeServer, journal_path: Path) -> None:
    offline(journal_path)
    server.refuse = lambda path, body: (
        (422, "time: Extra inputs are not permitted") if "time" in body else None
    )
    (one,) = sync(journal_path, server.url, "hr_test")

    assert one.problem == ""
    assert [what for what, _ in server.notices] == ["runs", "start", "finish"]


def test_attempts_keep_their_order_and_starts(server: FakeServer, journal_path: Path) -> None:
    offline(journal_path, finish=False)
    offline(journal_path, resumed_from_step=1)

    (one,) = sync(journal_path, server.url, "hr_test")

    starts = [body for what, body in server.notices if what == "start"]
    assert [(body["attempt"], body["resumed_from_step"]) for body in starts] == [(1, None), (2, 1)]
    assert server.steps("made1", 1) == [0, 1, 2] and server.steps("made1", 2) == [0, 1, 2]
    assert [body["attempt"] for what, body in server.notices if what == "finish"] == [2]
    assert one.problem == ""


def test_a_known_run_stays_that_run(server: FakeServer, journal_path: Path) -> None:
    offline(journal_path, run="r7")

    (one,) = sync(journal_path, server.url, "hr_test")

    assert one.run == "r7" and server.steps("r7") == [0, 1, 2]
    assert not any(path == "runs" for path, _ in server.notices)


def test_the_end_of_a_run_whose_server_was_away_is_told(server: FakeServer, journal_path: Path) -> None:
    code = f"""
import headroom
run = headroom.init(run="r1", journal={str(journal_path)!r}, url="http://127.0.0.1:9", token="t")
run.log({{"a": 1}}, step=0)
print(bool(run.finish(timeout=0.1)))
"""
    assert run_python(code).stdout == "False\n"

    (one,) = sync(journal_path, server.url, "hr_test")

    assert one.problem == "" and server.steps() == [0]
    (end,) = [body for what, body in server.notices if what == "finish"]
    assert end.items() >= {"attempt": 1, "state": "succeeded"}.items()


def test_a_damaged_line_is_kept_back_and_named(server: FakeServer, journal_path: Path, caplog) -> None:
    offline(journal_path)
    lines = journal_path.read_bytes().splitlines(keepends=True)
    journal_path.write_bytes(lines[0] + lines[1].replace(b'"loss":0.5', b'"loss":0.7') + lines[2])

    (one,) = sync(journal_path, server.url, "hr_test")

    assert one.problem == "" and server.steps("made1") == [0, 2]
    assert one.refused.startswith("1 record refused: it was damaged on the disk")
    assert "its checksum does not match" in caplog.text
    assert '"loss": 0.7' in Path(f"{journal_path}.rejected").read_text()


def test_one_that_is_written_is_left_alone(server: FakeServer, journal_path: Path) -> None:
    run = init(journal=journal_path, mode="offline")
    (one,) = sync(journal_path, server.url, "hr_test")
    run.finish()

    assert "already open in this process" in one.problem and server.requests == []


def test_no_server_says_so(server: FakeServer, journal_path: Path) -> None:
    offline(journal_path)
    server.stop()

    (one,) = sync(journal_path, server.url, "hr_test")

    assert "cannot be reached" in one.problem
    assert about.load(journal_path).outcome is not None


def test_a_server_that_is_away_is_found_out_once(server: FakeServer, tmp_path: Path) -> None:
    """Also for runs that it knows, for which a sender would try again and again."""
    for name in ("a", "b"):
        offline(tmp_path / f"{name}.jsonl", run=name)
    server.stop()

    began = time.monotonic()
    assert ["cannot be reached" in one.problem for one in sync(tmp_path, server.url, "t", timeout=30)] == [
        True
    ] * 2
    assert time.monotonic() - began < 15


def test_a_run_that_the_server_has_no_more_is_named_at_once(server: FakeServer, journal_path: Path) -> None:
    offline(journal_path, run="gone")
    server.refuse = lambda path, body: (404, "There is no run gone.")

    began = time.monotonic()
    (one,) = sync(journal_path, server.url, "hr_test", timeout=30)
    assert "There is no run gone." in one.problem and time.monotonic() - began < 15


def test_the_command(server: FakeServer, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_TOKEN", "hr_test")
    offline(tmp_path / "one.jsonl")
    (tmp_path / "not-ours.jsonl").write_text("{}\n")

    assert main(["sync", str(tmp_path), "--url", server.url]) == 0
    said = capsys.readouterr().out
    assert "one.jsonl: run made1" in said and "bytes sent" in said and "not-ours" not in said
    assert main(["sync", str(tmp_path), "--url", server.url]) == 0
    assert "nothing new" in capsys.readouterr().out
    server.stop()
    offline(tmp_path / "two.jsonl")
    assert main(["sync", str(tmp_path / "two.jsonl"), "--url", server.url]) == 1
    assert "cannot be reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sync", "nowhere", "--url", "http://x"], "nowhere does not exist"),
        (["sync", "."], "a server is needed"),
        (["sync", "{journal}", "--url", "ftp://x", "--token", "t"], "must start with http"),
    ],
)
def test_unusable_arguments(arguments: list[str], words: str, journal_path: Path, capsys) -> None:
    offline(journal_path)

    assert main([one.format(journal=journal_path) for one in arguments]) == 2
    assert words in capsys.readouterr().err


def test_an_unknown_mode_is_refused(journal_path: Path) -> None:
    with pytest.raises(ValueError, match="mode must be one of online, offline, not 'ofline'"):
        init(journal=journal_path, mode="ofline")


def limited(path: str, body: dict[str, Any]) -> tuple[int, str] | None:
    """As the server refuses what older clients wrote."""
    for record in body.get("records", []):
        is_huge = any(abs(value) > 10**308 for value in record["metrics"].values())
        if not -(2**63) <= record["step"] < 2**63 or len(record["metrics"]) > 1000 or is_huge:
            return 422, "records.0 cannot be stored"
    return None


def test_what_older_clients_wrote_holds_nothing_up(server: FakeServer, journal_path: Path) -> None:
    """A configuration that is no JSON, and records beyond the server's limits: what is good of them gets in."""
    server.refuse = limited
    offline(journal_path, steps=1)
    known = about.load(journal_path)
    about.save(replace(known, description=known.description | {"config": {"limit": math.inf}}), journal_path)
    lines = [
        {"step": 2**64, "metrics": {"a": 1}},
        {"step": 2, "metrics": {f"m{i}": i for i in range(1500)}},
        {"step": 3, "metrics": {"huge": 10**400, "good": 1}},
        {"step": 4, "metrics": {"a": 4}},
    ]
    with journal_path.open("ab") as file:
        for seq, line in enumerate(lines, 1):
            file.write(
                sealed({"attempt": 1, "seq": seq, "time": "2026-01-01T00:00:00+00:00", "compute": {}} | line)
            )

    (one,) = sync(journal_path, server.url, "hr_test")
    (again,) = sync(journal_path, server.url, "hr_test")

    assert (one.problem, again.problem, again.records_bytes) == ("", "", 0)
    assert one.refused == again.refused and one.refused.startswith("1 value refused: metric 'huge'")
    assert server.notices[0][1]["config"] == {"limit": "inf"}
    assert server.steps("made1") == [0, 2**63 - 1, 2, 3, 4, 2]
    assert server.records["made1", 1, 3]["metrics"] == {"good": 1}
    rest = [server.records["made1", 1, seq]["metrics"] for seq in (2, 5)]
    assert rest == [{f"m{i}": i for i in range(1000)}, {f"m{i}": i for i in range(1000, 1500)}]
    assert "refused" in dict(server.notices)


def test_what_was_left_out_while_the_server_was_away_is_told_later(
    server: FakeServer, journal_path: Path
) -> None:
    code = f"""
import headroom
run = headroom.init(run="r1", journal={str(journal_path)!r}, url="http://127.0.0.1:9", token="t")
run.log({{"eval/pass_rate": 1.7, "loss": 1}}, step=0)
run.finish(timeout=0.1)
"""
    assert run_python(code).returncode == 0

    (one,) = sync(journal_path, server.url, "hr_test")

    assert one.refused.startswith("1 value refused: metric 'eval/pass_rate' is 1.7")
    assert ("refused", {"attempt": 1, "refused_records": 0, "refused_values": 1}) in [
        (what, {name: value for name, value in body.items() if name != "reason"})
        for what, body in server.notices
    ]


def test_what_is_refused_is_in_the_status(server: FakeServer, journal_path: Path, capsys) -> None:
    server.refuse = lambda path, body: (422, "not so") if body.get("records") else None
    offline(journal_path)

    for _ in range(2):
        assert main(["sync", str(journal_path), "--url", server.url, "--token", "t"]) == 1
        assert "3 records refused: not so" in capsys.readouterr().out
