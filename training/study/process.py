"""One training as a process: in a session of its own, and nothing of it left when it has ended.

`command` names a keeper (`stack/keeper.py`) that ends all that belongs to the training when its standard input closes:
that is how it is stopped, and what happens when this process is killed.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

POLL_SECONDS = 0.2
SAMPLE_SECONDS = 5.0  # between looks at who has the cores
OF_A_SERVER = ("HEADROOM_URL", "HEADROOM_RUN", "HEADROOM_ATTEMPT", "HEADROOM_TOKEN", "HEADROOM_TOKEN_FILE")


@dataclass(frozen=True)
class Ended:
    """How a process ended. `cut`: it was ended from outside: "stop", "time", or empty."""

    status: int
    cut: str
    wall_seconds: float
    cpu_free_share: float | None


def run_process(
    command: Sequence[str],
    *,
    output: Path,
    environment: Mapping[str, str],
    seconds: float,
    stop: Callable[[], bool],
    lock: int | None = None,
) -> Ended:
    """Run it to its end, at the latest `seconds` from now, or until `stop()`; `lock` is held while any of it lives."""
    began, cut = time.monotonic(), ""
    kept = {name: value for name, value in os.environ.items() if name not in OF_A_SERVER}
    with output.open("ab") as log:
        process = subprocess.Popen(
            list(command),
            env=kept | dict(environment),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the terminal is for whoever waits here
            pass_fds=() if lock is None else (lock,),
        )
    meter = _CoresMeter(process.pid)
    while process.poll() is None:
        if not cut and (stop() or time.monotonic() - began > seconds):
            cut = "stop" if stop() else "time"
            assert process.stdin is not None
            process.stdin.close()
        meter.look()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_SECONDS)
    if process.stdin is not None and not process.stdin.closed:
        process.stdin.close()
    return Ended(process.returncode, cut, time.monotonic() - began, meter.free_share())


class _CoresMeter:
    """The share of this machine's cores that was idle or a process's and its descendants' own."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._own: dict[int, float] = {}  # CPU seconds of each process of its, at the last look
        self._at_first = _busy_seconds()
        self._looked = (time.monotonic(), *self._at_first)

    def look(self) -> None:
        """Note what its processes have used, now and then."""
        if time.monotonic() - self._looked[0] < SAMPLE_SECONDS:
            return
        self._looked = (time.monotonic(), *_busy_seconds())
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self._pid)
            for process in [root, *root.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):  # it has just ended
                    times = process.cpu_times()
                    self._own[process.pid] = times.user + times.system

    def free_share(self) -> float | None:
        """From 0 to 1; None where it ended before the first look."""
        _, busy, total = self._looked
        passed = total - self._at_first[1]
        if passed <= 0 or not self._own:
            return None
        of_others = busy - self._at_first[0] - sum(self._own.values())
        return min(1.0, max(0.0, 1.0 - of_others / passed))


def _busy_seconds() -> tuple[float, float]:
    """(busy, all) CPU seconds of this machine since its start."""
    times = psutil.cpu_times()
    total = sum(times[:8])  # without what guests count twice
    return total - times.idle - getattr(times, "iowait", 0.0), total
