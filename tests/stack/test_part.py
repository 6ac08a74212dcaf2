import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack import part as part_module
from stack.part import Part


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


def make_part(tmp_path: Path, code: str) -> Part:
    return Part("thing", lambda: [sys.executable, "-c", code], lambda: True, tmp_path, {"COLOUR": "green"})


def test_output_and_environment_reach_the_process(tmp_path: Path, lock: int) -> None:
    part = make_part(tmp_path, "import os; print(os.environ['COLOUR']); raise SystemExit(4)")
    part.start(lock)
    assert part.process is not None
    part.process.wait(10)

    assert part.exit_status() == 4
    assert part.log_tail() == "green"


def test_restarts_wait_longer_each_time_up_to_a_bound(tmp_path: Path, lock: int) -> None:
    part = make_part(tmp_path, "")
    part.start(lock)
    assert part.process is not None
    part.process.wait(10)

    assert [part.plan_restart() for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    part.started_at -= part_module.SETTLED_SECONDS + 1
    assert part.plan_restart() == 0.5


def test_stopping_ends_the_process(tmp_path: Path, lock: int) -> None:
    part = make_part(tmp_path, "import time; time.sleep(600)")
    part.start(lock)
    part.ask_to_stop()
    part.wait_stopped(15)

    assert part.process is None
    assert part.exit_status() is None


def test_long_log_is_set_aside_at_the_next_start(
    tmp_path: Path, lock: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_module, "MAX_LOG_BYTES", 3)
    part = make_part(tmp_path, "print('new')")
    part.log_path.write_text("old log\n")
    part.start(lock)
    assert part.process is not None
    part.process.wait(10)

    assert part.log_path.read_text() == "new\n"
    assert (tmp_path / "thing.log.1").read_text() == "old log\n"
