"""The whole local stack as a user starts it, once a session: `manage.py up` in a folder of its own on a free port."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import httpx
import psutil
import pytest

from stack.environment import ROOT
from stack.parts import ray_folder
from stack.ports import free_port
from tests.chaos.network import Network
from tests.deep import IS_DEEP
from tests.pretrained import MODEL, have_model

START_SECONDS = 120.0
STOP_SECONDS = 40.0
STORY_STEPS = 40  # of the run whose whole story is looked at
# Its recipe: ScaleRL (tiny), in the long form with vLLM, on sums that its model mostly guesses, looked at often.
STORY, STORY_TITLE = "story", "ScaleRL, looked at often"
STORY_TASK = {"min_digits": 1, "max_digits": 1, "train_prompts": 48, "held_out_pool": 32}
STORY_CHANGES = {
    "task": {"name": "arithmetic", "options": STORY_TASK},
    "engine": {"type": "vllm" if IS_DEEP else "transformers"},
    "eval": {"every_steps": 5, "prompts": 32, "k": 4},
    "budget": {"max_steps": STORY_STEPS},
    "rollout": {"prompts_per_step": 8},
    "optimizer": {"lr": 1.6e-4},
}
MANAGE = (sys.executable, "manage.py")
# What the tests' own process uses must not reach the stack under test.
FOREIGN = (
    "DATABASE_URL",
    "REDIS_URL",
    "RAY_ADDRESS",
    "DJANGO_SETTINGS_MODULE",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
)


@dataclass
class RunningStack:
    """A started `manage.py up`: where it is, its first account, and what its latest start printed so far.

    `network`: between its trainers and its web server, where it was started with one.
    """

    home: Path
    port: int
    options: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = MANAGE
    network: Network | None = None
    username: str = "admin"
    password: str = ""  # of the first account, as printed at the first start
    process: subprocess.Popen[str] = field(init=False)
    output: list[str] = field(init=False)
    watched: list[str] = field(default_factory=list)  # runs of the story that were watched in a browser
    _tokens: dict[str, str] = field(default_factory=dict)
    _news: threading.Condition = field(default_factory=threading.Condition)

    @classmethod
    def start(
        cls,
        home: Path,
        *options: str,
        variables: Mapping[str, str] | None = None,
        program: tuple[str, ...] = MANAGE,
        with_network: bool = False,
    ) -> "RunningStack":
        """Start and wait until it says that it is up; raises AssertionError with its output otherwise."""
        stack = cls(home, free_port(), options, stack_environment(home) | dict(variables or {}), program)
        if with_network:
            stack.network = Network(stack.port)
            stack.variables["HEADROOM_URL"] = stack.network.url
        stack.start_again()
        found = re.search(r"password (\S+)", "\n".join(stack.output))
        stack.password = found.group(1) if found else ""
        return stack

    def start_again(self) -> None:
        """On the same folder and port."""
        command = [*self.program, "up", "--home", str(self.home), "--port", str(self.port), *self.options]
        self.output = []
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=self.variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        threading.Thread(target=self._read, args=(self.process, self.output), daemon=True).start()
        try:
            self.wait_for("Headroom is up", START_SECONDS)
        except BaseException:  # also a test that took too long: nobody else knows that it runs
            self.stop()
            raise

    def _read(self, process: subprocess.Popen[str], output: list[str]) -> None:
        assert process.stdout is not None
        for line in chain(process.stdout, ["(ended)"]):
            with self._news:
                output.append(line.rstrip())
                self._news.notify_all()

    def wait_for(self, text: str, seconds: float = 30.0, *, after: int = 0) -> None:
        """Wait until the stack has printed `text`, after so many lines."""
        with self._news:
            found = self._news.wait_for(
                lambda: any(text in x or x == "(ended)" for x in self.output[after:]), seconds
            )
            assert found and any(text in line for line in self.output[after:]), "\n".join(self.output)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

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

    def close(self) -> None:
        """Stop it for good, and remove its folder."""
        if self.network is not None:
            self.network.close()
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)


def stack_environment(home: Path) -> dict[str, str]:
    """This process's environment without the addresses of the tests' own parts, and without the example project.
    Bytecode is kept: every one of the stack's many processes would compile our own code anew.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HEADROOM_") and k not in FOREIGN}
    return kept | {"HEADROOM_HOME": str(home), "HEADROOM_EXAMPLE": "none"}


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
    """The whole stack with Ray, shared by all tests that need one. Whoever breaks a part waits until it works again;
    whoever stops the stack starts it again.
    """
    running = RunningStack.start(Path(tempfile.mkdtemp(prefix="headroom-stack-")), with_network=True)
    yield running
    running.close()


@pytest.fixture(scope="session")
def stack_with_model(stack: RunningStack) -> RunningStack:
    """The running stack with the model and the recipe of the story."""
    have_model(stack.home)
    headers = {"Authorization": f"Bearer {stack.token('launch')}"}
    with httpx.Client(base_url=f"{stack.url}/api/v1/", headers=headers, timeout=30) as api:
        tiny = api.get("recipes/tiny-scalerl/revisions").raise_for_status().json()["items"][0]["config"]
        config = tiny | {name: tiny[name] | changed for name, changed in STORY_CHANGES.items()}
        config["model"] = MODEL
        api.post("recipes", json={"slug": STORY, "name": STORY_TITLE, "config": config}).raise_for_status()
    return stack
