"""The whole local stack as a user starts it, once a session: `manage.py up` in a folder of its own on a free port."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from stack.environment import ROOT
from stack.ports import free_port
from stack.ray import ray_folder

START_SECONDS = 120.0
STOP_SECONDS = 40.0
PRETRAIN_SECONDS = 300
MANAGE = (sys.executable, "manage.py")
# What the tests' own process uses must not reach the stack under test.
FOREIGN = ("DATABASE_URL", "REDIS_URL", "RAY_ADDRESS", "DJANGO_SETTINGS_MODULE")


@dataclass
class RunningStack:
    """A started `manage.py up`: where it is, its first account, and what it printed so far."""

    home: Path
    port: int
    process: subprocess.Popen[str]
    output: list[str] = field(default_factory=list)
    username: str = "admin"
    program: tuple[str, ...] = MANAGE
    _tokens: dict[str, str] = field(default_factory=dict)
    _news: threading.Condition = field(default_factory=threading.Condition)

    @classmethod
    def start(
        cls,
        home: Path,
        *options: str,
        port: int | None = None,
        variables: dict[str, str] | None = None,
        program: tuple[str, ...] = MANAGE,
    ) -> "RunningStack":
        """Start and wait until it says that it is up; raises AssertionError with its output otherwise."""
        port = port or free_port()
        command = [*program, "up", "--home", str(home), "--port", str(port), *options]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=variables or stack_environment(home),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        stack = cls(home, port, process, program=program)
        threading.Thread(target=stack._read, daemon=True).start()
        try:
            stack.wait_for("Headroom is up", START_SECONDS)
        except BaseException:  # also a test that took too long: nobody else knows that it runs
            stack.stop()
            raise
        return stack

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.output.append(line.rstrip())
                self._news.notify_all()
        with self._news:
            self.output.append("(ended)")
            self._news.notify_all()

    def wait_for(self, text: str, seconds: float = 30.0) -> None:
        """Wait until the stack has printed `text`."""
        with self._news:
            found = self._news.wait_for(
                lambda: any(text in x or x == "(ended)" for x in self.output), seconds
            )
            assert found and any(text in line for line in self.output), "\n".join(self.output)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def password(self) -> str:
        """Of the first account, as printed at the first start."""
        found = re.search(r"password (\S+)", "\n".join(self.output))
        assert found, "\n".join(self.output)
        return found.group(1)

    def manage(self, *arguments: str) -> str:
        """The output of a management command on this installation."""
        done = subprocess.run(
            [*self.program, *arguments],
            cwd=ROOT,
            env=stack_environment(self.home),
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.stdout

    def token(self, scope: str = "launch") -> str:
        """An API token of the first account, made at the first call."""
        if scope not in self._tokens:
            printed = self.manage("create_token", self.username, "--scope", scope)
            self._tokens[scope] = printed.strip().splitlines()[-1]
        return self._tokens[scope]

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self) -> None:
        """SIGTERM, as a service manager would; safe to call when it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOP_SECONDS)
        shutil.rmtree(ray_folder(self.home), ignore_errors=True)  # lies outside `home`


def stack_environment(home: Path) -> dict[str, str]:
    """This process's environment without the addresses of the tests' own parts."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HEADROOM_") and k not in FOREIGN}
    return kept | {"HEADROOM_HOME": str(home)}


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those of `processes` that still run."""
    found = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            pass
    return found


@pytest.fixture(scope="session")
def stack() -> Iterator[RunningStack]:
    """The whole stack with Ray, shared by all tests marked `stack`; they must leave it working."""
    home = Path(tempfile.mkdtemp(prefix="headroom-stack-"))
    running = RunningStack.start(home)
    yield running
    running.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def stack_with_model(stack: RunningStack) -> RunningStack:
    """The running stack after `python -m training pretrain`, as `make demo` does it."""
    subprocess.run(
        [sys.executable, "-m", "training", "pretrain"],
        cwd=ROOT,
        env=stack_environment(stack.home),
        check=True,
        timeout=PRETRAIN_SECONDS,
    )
    return stack
