"""A part of the stack: a command, how to tell that it works, and its process while it runs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stack.environment import ROOT

FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 30.0
MAX_LOG_BYTES = 20_000_000  # a longer log is set aside at the part's next start
SETTLED_SECONDS = 60.0  # a part that ran this long starts over with the first back-off


@dataclass
class Part:
    """One child of the supervisor, run under `stack/keeper.py` so that nothing of it is left behind.

    `command` is called at each start (ports may be chosen there); `ready` says whether the part does its work.
    """

    name: str
    command: Callable[[], list[str]]
    ready: Callable[[], bool]
    log_folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    ready_seconds: float = 60.0
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    failures: int = 0
    restart_at: float | None = None

    @property
    def log_path(self) -> Path:
        return self.log_folder / f"{self.name}.log"

    def start(self, lock: int) -> None:
        """Start the process; its output is appended to its log. The keeper holds `lock` (a descriptor) until all
        of the part is gone. Raises OSError."""
        command = [sys.executable, "-P", str(ROOT / "stack" / "keeper.py"), *self.command()]
        if self.log_path.exists() and self.log_path.stat().st_size > MAX_LOG_BYTES:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | self.environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is the supervisor's business
                pass_fds=(lock,),
            )
        self.started_at = time.monotonic()
        self.restart_at = None

    def exit_status(self) -> int | None:
        """The status that the process ended with; None while it runs or where there is none."""
        return None if self.process is None else self.process.poll()

    def plan_restart(self) -> float:
        """Note that the process ended; the seconds to wait before it may start again."""
        lived = time.monotonic() - self.started_at
        self.failures = 1 if lived > SETTLED_SECONDS else self.failures + 1
        self._forget()
        delay = min(FIRST_BACKOFF_SECONDS * 2 ** (self.failures - 1), MAX_BACKOFF_SECONDS)
        self.restart_at = time.monotonic() + delay
        return delay

    def ask_to_stop(self) -> None:
        """Have the keeper end the part; returns at once."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def wait_stopped(self, timeout_seconds: float) -> None:
        """Wait until the part is gone; after the timeout the keeper itself is killed."""
        if self.process is None:
            return
        try:
            self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._forget()

    def _forget(self) -> None:
        self.ask_to_stop()
        self.process = None

    def log_tail(self, max_bytes: int = 2000) -> str:
        """The end of the part's log."""
        try:
            with self.log_path.open("rb") as file:
                file.seek(max(0, self.log_path.stat().st_size - max_bytes))
                return file.read().decode(errors="replace").strip()
        except OSError:
            return ""
