"""Runs one part of the stack and sees to it that nothing of it outlives the supervisor.

    python stack/keeper.py [--grace SECONDS] COMMAND ARGUMENT...

The supervisor holds the other end of standard input. When that closes (because the supervisor stops this part, or was
killed), or on SIGTERM, the command gets SIGTERM, some time, and then everything that descends from it is killed: being
a subreaper, the keeper inherits daemons that the command left (Ray's, PostgreSQL's). Ends with the command's status.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 10.0  # between SIGTERM to the command and SIGKILL to all
LEFTOVER_SECONDS = 2.0  # the same for what the command left behind
POLL_SECONDS = 1.0
STANDARD_INPUT = 0
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere daemons of a part are not caught."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def main(command: list[str]) -> int:
    grace = GRACE_SECONDS
    if command[0] == "--grace":
        grace, command = float(command[1]), command[2:]
    signals = _signal_pipe()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    with open(os.devnull, "rb") as nothing:
        process = subprocess.Popen(
            command, stdin=nothing, preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        )
    while process.poll() is None and not _stop_wanted(signals):
        _reap_adopted(process.pid)
    _end(process, grace)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _signal_pipe() -> int:
    """A file descriptor from which the numbers of arriving signals can be read."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    for number in (*STOP_SIGNALS, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return readable


def _stop_wanted(signals: int) -> bool:
    """Wait for something to happen; True when that is a stop signal or the end of standard input."""
    readable = select.select([signals, STANDARD_INPUT], [], [], POLL_SECONDS)[0]
    if STANDARD_INPUT in readable:
        return True
    return signals in readable and not STOP_SIGNALS.isdisjoint(os.read(signals, 100))


def _reap_adopted(main_pid: int) -> None:
    """Bury what was left to us: a process that waits for its end (Ray, for a stopped job) would go on waiting."""
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if dead.si_pid == main_pid:
                return
            os.waitpid(dead.si_pid, 0)


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    _signal_descendants(signal.SIGTERM)
    _wait_for_descendants(LEFTOVER_SECONDS)
    while _descendants():  # new ones may appear while the others die
        _signal_descendants(signal.SIGKILL)
        _wait_for_descendants(1.0)
    _reap_adopted(process.pid)


def _descendants() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if _alive(child)]


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _signal_descendants(number: int) -> None:
    for child in _descendants():
        with contextlib.suppress(psutil.NoSuchProcess):
            child.send_signal(number)


def _wait_for_descendants(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _descendants() and time.monotonic() < deadline:
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
