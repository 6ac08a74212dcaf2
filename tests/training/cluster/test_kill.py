"""The command itself with local Ray; a part of it is killed in the middle, and the run is resumed.

In the short form with actors that know no torch and a head that is soon given up; driver, Ray, signals, files and exit
status are real in both.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.deep import IS_DEEP
from tests.waiting import wait_until
from training.checkpoints import newest_checkpoint
from training.errors import EXIT_TEMPORARY
from training.recipe import load_recipe

pytestmark = pytest.mark.ray

EVERY = 4  # steps between evaluations
PROMPTS = load_recipe("tiny/scalerl").task.options["train_prompts"]
SECONDS = 90.0  # on a busy machine; about 15 on a quiet one


class Run:
    """`python -m training run` in a folder; with `toys`, with actors that know no torch."""

    def __init__(
        self,
        folder: Path,
        model: Path,
        *,
        steps: int,
        resume: bool = False,
        toys: bool = False,
        **variables: str,
    ) -> None:
        self.folder = folder
        settings = {
            "model": str(model),
            "rollout.prompts_per_step": 2,
            "rollout.generations_per_prompt": 2,
            "eval.prompts": 4,
            "eval.k": 2,
            "eval.every_steps": EVERY,
            "curriculum.mode": "uniform",
            "checkpoint.every_steps": 2,
            "budget.device_hours": 10,
        }
        program = "tests.training.cluster.toy_command" if toys else "training"
        command = [sys.executable, "-m", program, "run", "tiny/scalerl", "--run-dir", str(folder)]
        command += ["--engine", "transformers", "--depth", "1", "--steps", str(steps)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.output = folder.parent / f"{folder.name}-{'resumed' if resume else 'first'}.log"
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [*command, *(["--resume"] if resume else [])],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=os.environ | variables,
            )

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *error: object) -> None:
        """A test that fails leaves nothing running: Ray's processes end with the driver."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=SECONDS)

    def wait(self) -> int:
        return self.process.wait(timeout=SECONDS)

    def records(self) -> list[dict[str, Any]]:
        journal = self.folder / "metrics.jsonl"
        lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def has_made(self, steps: int) -> Callable[[], bool]:
        return lambda: (
            self.process.poll() is not None or any(record["step"] >= steps for record in self.records())
        )


def processes_of(run: Run) -> list[int]:
    """Of generator and trainer."""
    return json.loads((run.folder / "driver.json").read_text())["processes"]


def is_alive(process: int) -> bool:
    """Whether it runs; one that has ended and whose parent has not looked yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def process_of(run: Run, part: str) -> int:
    """The trainer's is the last in driver.json. An engine that is killed: test_cluster_run.py."""
    driver = json.loads((run.folder / "driver.json").read_text())
    return {"driver": driver["pid"], "trainer": driver["processes"][-1]}[part]


def check_whole(records: list[dict[str, Any]], resumed_from: list[int], steps: int) -> None:
    """Every step and evaluation once in what counts, and compute never goes back. `resumed_from`: of the attempts after
    the first."""
    counted = [r for r in records if r["step"] <= min(resumed_from[r["attempt"] - 1 :], default=steps)]
    trained = [record["step"] for record in counted if "train/reward" in record["metrics"]]
    evaluated = [record["step"] for record in counted if "eval/pass_rate" in record["metrics"]]
    assert trained == list(range(1, steps + 1))
    assert evaluated == sorted({*range(0, steps + 1, EVERY), steps})
    for axis in ("device_hours", "flops", "tokens"):
        used = [record["compute"][axis] for record in counted]
        assert used == sorted(used) and used[-1] > used[1] > used[0] == 0


def check_prompts(folder: Path, steps: int) -> None:
    """Those that are left, and those on their way, are all that have not been trained, each once (first epoch)."""
    checkpoint = newest_checkpoint(folder / "checkpoints")
    assert checkpoint is not None and checkpoint.step == steps
    left = checkpoint.driver["sampler"]["queue"]
    begun = [group["prompt"] for group in checkpoint.driver["groups"]]
    assert len({*left, *begun}) == len(left) + len(begun) == PROMPTS - 2 * steps


@dataclass
class Killed:
    """A run of which one part after the other is killed, and where its attempts after the first went on."""

    folder: Path
    resumed_from: list[int] = field(default_factory=list)
    is_begun: bool = False

    def checkpoint(self) -> int:
        """The step of the newest one; 0 before there is one."""
        found = newest_checkpoint(self.folder / "checkpoints")
        return found.step if found else 0

    def go_on(self, model: Path, *, steps: int) -> Run:
        """The next attempt."""
        if self.is_begun:
            self.resumed_from.append(self.checkpoint())
        run = Run(self.folder, model, steps=steps, resume=self.is_begun, toys=not IS_DEEP)
        self.is_begun = True
        return run


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    return Killed(tmp_path_factory.mktemp("killed") / "run")


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", ["driver", "trainer"])
def test_killed_run_says_what_died(part: str, killed: Killed, toy_model: Path) -> None:
    with killed.go_on(toy_model, steps=1000) as run:
        wait_until(run.has_made(killed.checkpoint() + EVERY + 1), seconds=SECONDS, what="five steps")
        victim = process_of(run, part)
        os.kill(victim, signal.SIGKILL)
        status = run.wait()
    output = run.output.read_text()
    assert status == (-signal.SIGKILL if part == "driver" else EXIT_TEMPORARY), output
    if part != "driver":
        last = output.splitlines()[-1]
        assert re.search(rf"^error: {part}\b.* \(process {victim} on .*\) died: killed", last), output
    wait_until(lambda: not any(map(is_alive, processes_of(run))), what="its processes to end")
    assert killed.checkpoint() > 0


@pytest.mark.long_form
@pytest.mark.timeout(300)
def test_a_resume_finishes_a_run_of_which_every_part_was_killed(killed: Killed, toy_model: Path) -> None:
    """Not by itself alone: of what the tests before have killed."""
    steps = killed.checkpoint() + 6
    with killed.go_on(toy_model, steps=steps) as last:
        assert last.wait() == 0, last.output.read_text()
    summary = json.loads((killed.folder / "summary.json").read_text())
    assert (summary["state"], summary["step"]) == ("succeeded", steps)
    check_whole(last.records(), killed.resumed_from, steps)
    check_prompts(killed.folder, steps)


def ray_process_of(run: Run, program: str) -> int:
    """Of the local cluster: a child of the driver."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if parent == run.process.pid and words[0].decode().endswith(program):
            return int(folder.name)
    raise AssertionError(f"no {program} among the children of {run.process.pid}")


@pytest.mark.long_form
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("program", "and_stop"),
    [
        pytest.param("raylet", True, marks=pytest.mark.deep),
        pytest.param("gcs_server", False, marks=pytest.mark.deep),
        pytest.param("gcs_server", True, marks=pytest.mark.deep),
        pytest.param("raylet", False, marks=pytest.mark.deep),
    ],
)
def test_run_whose_ray_is_killed_ends_and_says_so(
    program: str, and_stop: bool, toy_model: Path, tmp_path: Path
) -> None:
    """Not even a stop waits for what can no longer answer."""
    quick = {"QUICK_PULSE": "1"} if and_stop or not IS_DEEP else {}
    with Run(tmp_path / "run", toy_model, steps=100_000, toys=True, **quick) as run:
        wait_until(run.has_made(EVERY + 1), seconds=SECONDS, what="five steps")
        os.kill(ray_process_of(run, program), signal.SIGKILL)
        if and_stop:
            run.process.terminate()
        status = run.process.wait(timeout=60)
    output = run.output.read_text()

    last = output.splitlines()[-1]
    if and_stop and status == 0:  # what it needed for that was alive, or had answered before
        assert last.startswith("cancelled: stopped on request"), output
    else:
        assert status == EXIT_TEMPORARY, output
        assert re.search(
            r"^error: .*(the Ray cluster is lost|its node is gone|cannot be reached|raylet)", last
        ), output
    wait_until(lambda: not any(map(is_alive, processes_of(run))), what="its processes to end")
