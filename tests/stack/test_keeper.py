"""The keeper is run as the supervisor runs it; the commands under it are small real processes."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from stack.environment import ROOT
from tests.running_stack import alive
from tests.waiting import wait_until

# A parent whose grandchild is a daemon: its own session, its parent gone.
WITH_DAEMON = """
import subprocess, sys, time
inner = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, flush=True)"
subprocess.run([sys.executable, "-c", inner])
time.sleep(600)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("0", flush=True)
time.sleep(600)
"""
Keep = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def keep() -> Iterator[Keep]:
    started: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        keeper = [sys.executable, "-P", str(ROOT / "stack" / "keeper.py"), "--grace", "0.5"]
        command = [*keeper, sys.executable, "-c", code]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("how", ["supervisor gone", "SIGTERM"])
def test_everything_below_ends_even_a_daemon(keep: Keep, how: str) -> None:
    process = keep(WITH_DAEMON)
    daemon = psutil.Process(int(first_line(process)))
    wait_until(lambda: daemon.ppid() == process.pid, 5, "adopted by the keeper")
    below = psutil.Process(process.pid).children(recursive=True)
    if how == "SIGTERM":
        process.send_signal(signal.SIGTERM)
    else:
        assert process.stdin is not None
        process.stdin.close()
    process.wait(10)

    assert alive([*below, daemon]) == []


def test_daemon_of_a_command_that_ends_by_itself_is_ended_too(keep: Keep) -> None:
    process = keep(WITH_DAEMON.replace("time.sleep(600)", "sys.exit(3)"))
    daemon = psutil.Process(int(first_line(process)))

    assert process.wait(10) == 3
    assert alive([daemon]) == []


def test_adopted_process_that_ends_is_buried(keep: Keep) -> None:
    process = keep(WITH_DAEMON)
    daemon = psutil.Process(int(first_line(process)))
    daemon.kill()

    wait_until(lambda: not psutil.pid_exists(daemon.pid), 5, "no zombie is left")
    assert process.poll() is None


def test_status_of_a_killed_command_is_as_a_shell_says_it(keep: Keep) -> None:
    process = keep("import os; os.kill(os.getpid(), 9)")

    assert process.wait(10) == 128 + signal.SIGKILL


def test_command_that_ignores_sigterm_is_killed_after_the_grace(keep: Keep) -> None:
    process = keep(STUBBORN)
    first_line(process)
    below = psutil.Process(process.pid).children(recursive=True)
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait(20)

    assert alive(below) == []
    assert time.monotonic() - started > 0.5
