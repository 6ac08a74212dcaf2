"""Run.log_artifact: never in the way of a training, and nothing lost while the server is away."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headroom import artifacts
from headroom.run import Run
from headroom.syncing import sync
from tests.headroom.fake_server import FakeServer

Begin = Callable[..., Run]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "samples 1%.txt"
    path.write_bytes(b"2 + 2 = 4")
    return path


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_files_and_folders_arrive_before_the_end_of_the_run(
    begin: Begin, server: FakeServer, file: Path, tmp_path: Path, journal_path: Path
) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "a.bin").write_bytes(bytes(range(256)))
    (tmp_path / "out" / "empty").write_bytes(b"")
    run = begin()
    run.log({"a": 1.0})
    run.log_artifact(file)
    run.log_artifact(str(file), "eval/step 10/ä.txt")
    run.log_artifact(tmp_path / "out", name="model")

    assert run.finish()
    assert server.files == {
        ("r1", "samples 1%.txt"): b"2 + 2 = 4", ("r1", "eval/step 10/ä.txt"): b"2 + 2 = 4",
        ("r1", "model/deep/a.bin"): bytes(range(256)), ("r1", "model/empty"): b"",
    }  # fmt: skip
    paths = [path for path, _ in server.requests]
    assert paths[-1].endswith("/finish")
    assert not list(artifacts.folder_of(journal_path).iterdir())


def test_what_was_logged_is_kept_whatever_becomes_of_the_file(
    begin: Begin, server: FakeServer, file: Path
) -> None:
    server.refuse = lambda path, body: (503, "away") if "artifacts" in path else None
    run = begin()
    run.log_artifact(file)
    file.write_bytes(b"overwritten")
    file.unlink()
    server.refuse = lambda path, body: None

    assert run.finish()
    assert server.files == {("r1", file.name): b"2 + 2 = 4"}


def test_while_the_server_is_away_files_wait_for_the_next_run(
    begin: Begin, server: FakeServer, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse = lambda path, body: (503, "away") if "artifacts" in path else None
    run = begin()
    for name in ("a", "b", "c"):
        run.log_artifact(file, name)
    assert not run.finish(timeout=0.5)
    assert len([warning for warning in warnings_of(caplog) if "files wait in" in warning]) == 1
    assert not server.files

    server.refuse = lambda path, body: None
    run._uploads._thread.join(10)  # type: ignore[union-attr]  # it goes on as long as the process lives
    assert sorted(name for _, name in server.files) == ["a", "b", "c"]


def test_an_offline_run_is_synced_with_its_files(
    begin: Begin, server: FakeServer, file: Path, journal_path: Path
) -> None:
    run = begin(mode="offline", run=None)
    run.log({"a": 1.0})
    run.log_artifact(file, "a")
    assert run.finish() and not server.requests

    (synced,) = sync(journal_path, server.url, "hr_test")
    assert (synced.run, synced.problem) == ("made1", "")
    assert server.files == {("made1", "a"): b"2 + 2 = 4"}
    assert [one.problem for one in sync(journal_path, server.url, "hr_test")] == [""]
    assert len([path for path, _ in server.requests if "artifacts" in path]) == 1


@pytest.mark.parametrize("status", [413, 422, 404])
def test_what_is_refused_is_said_once_and_stops_nothing(
    begin: Begin, server: FakeServer, file: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    server.refuse = lambda path, body: (status, "too large: at most 1 GiB") if "big" in path else None
    run = begin()
    for name in ("big1", "big2", "small"):
        run.log_artifact(file, name)

    done = run.finish()
    assert not done and (done.sent, done.records, done.values) == (True, 0, 2)
    assert list(server.files) == [("r1", "small")]
    warning, last = warnings_of(caplog)
    assert "the file big1 is not kept by the server" in warning and "at most 1 GiB" in warning
    assert "2 values refused: the file big2 is not kept" in last
    told = {"attempt": 1, "refused_records": 0, "refused_values": 2, "reason": done.reason}
    assert [body for what, body in server.notices if what == "refused"][-1] == told


def test_refused_files_are_named_by_sync(
    begin: Begin, server: FakeServer, file: Path, journal_path: Path
) -> None:
    run = begin(mode="offline", run=None)
    run.log_artifact(file, "big")
    run.finish()
    server.refuse = lambda path, body: (413, "too large") if "artifacts" in path else None

    for _ in range(2):
        (synced,) = sync(journal_path, server.url, "hr_test")
        assert synced.problem == "" and "1 value refused: the file big is not kept" in synced.refused

    (told, *_) = [body for what, body in server.notices if what == "refused"]
    assert told["refused_values"] == 1


def test_files_that_cannot_be_sent_now_hold_up_no_record(
    begin: Begin, server: FakeServer, file: Path, journal_path: Path
) -> None:
    run = begin(mode="offline", run=None)
    run.log({"a": 1.0}, step=4)
    run.log_artifact(file, "a")
    run.finish()
    server.refuse = lambda path, body: (507, "no room") if "artifacts" in path else None

    (synced,) = sync(journal_path, server.url, "hr_test")
    assert server.steps("made1") == [4] and "no room" in synced.problem

    server.refuse = lambda path, body: None
    (synced,) = sync(journal_path, server.url, "hr_test")
    assert list(server.files) == [("made1", "a")] and synced.problem == ""


@pytest.mark.parametrize("path", ["never there", "\0", 5, None])
def test_nothing_is_raised_into_the_training(
    begin: Begin, server: FakeServer, caplog: pytest.LogCaptureFixture, path: Any
) -> None:
    run = begin()

    run.log_artifact(path)
    run.log_artifact(path)

    (warning,) = warnings_of(caplog)
    assert "is not kept" in warning
    assert run.finish() and not server.files


def test_after_the_end_nothing_is_kept(
    begin: Begin, server: FakeServer, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = begin()
    run.finish()

    run.log_artifact(file)

    assert not server.files and "after finish()" in warnings_of(caplog)[0]
