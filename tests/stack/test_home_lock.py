import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack.environment import ROOT
from stack.home_lock import AlreadyRunning, lock_home

HOLD = """
import sys, time
from pathlib import Path
from stack.home_lock import lock_home
lock = lock_home(Path(sys.argv[1]), print)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of tmp_path until its standard input closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None and process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_second_stack_is_refused_with_the_first_ones_process(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(AlreadyRunning, match=rf"already running on {tmp_path} \(process {holder.pid}\)"):
        lock_home(tmp_path, print)


def test_lock_is_free_after_a_kill(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()

    os.close(lock_home(tmp_path, print))


def test_leftover_children_of_a_killed_stack_are_waited_for(tmp_path: Path) -> None:
    """A child that holds the lock outlives the process named in the file, and ends when we have said so."""
    first = lock_home(tmp_path, print)
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(first,))
    os.close(first)
    gone = subprocess.Popen(["true"])
    gone.wait()
    (tmp_path / "up.lock").write_text(str(gone.pid))
    said: list[str] = []

    def end_child(text: str) -> None:
        said.append(text)
        assert child.stdin is not None
        child.stdin.close()

    os.close(lock_home(tmp_path, end_child))

    assert said == [f"waiting for what is left of process {gone.pid} to end"]
    child.wait()
