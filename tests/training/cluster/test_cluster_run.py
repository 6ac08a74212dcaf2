"""Runs through the command itself: several engines and ranks as actors of a local Ray, which announces enough cores."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until

pytestmark = pytest.mark.ray

TWO_OF_EACH = [
    "resources.generators=2",
    "resources.generator_cpus=2",
    "resources.trainers=2",
    "resources.trainer_cpus=2",
]


def command(
    run_dir: Path,
    model: Path,
    *settings: str,
    steps: int = 3,
    program: str = "training",
    engine: str = "transformers",
) -> list[str]:
    """Of a synchronous run."""
    words = [
        *[sys.executable, "-m", program, "run", "tiny/scalerl", "--run-dir", str(run_dir)],
        *["--engine", engine, "--depth", "0", "--steps", str(steps), "--set", f"model={model}"],
    ]
    values = ["rollout.prompts_per_step=4", "rollout.generations_per_prompt=16", "filter.zero_variance=keep"]
    values += [
        "eval.prompts=4",
        "eval.k=2",
        "eval.every_steps=3",
        "task.options={min_digits: 1, max_digits: 1, train_prompts: 60, held_out_pool: 16}",
        "precision.generator=float32",
    ]
    for setting in [*values, *settings]:
        words += ["--set", setting]
    return words


def train(run_dir: Path, model: Path, *settings: str) -> list[dict[str, Any]]:
    """The records of the run."""
    done = subprocess.run(command(run_dir, model, *settings), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr + done.stdout
    return records(run_dir)


def records(run_dir: Path) -> list[dict[str, Any]]:
    file = run_dir / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def series(found: list[dict[str, Any]], metric: str) -> list[float]:
    return [record["metrics"][metric] for record in found if metric in record["metrics"]]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, schooled_model: Path) -> list[dict[str, Any]]:
    """Records of one engine and one rank."""
    return train(tmp_path_factory.mktemp("alone"), schooled_model)


@pytest.mark.deep
@pytest.mark.timeout(240)
@pytest.mark.parametrize("transfer", ["object_store", "collective"])
def test_two_engines_and_two_ranks_train_as_one_of_each(
    alone: list[dict[str, Any]], tmp_path: Path, schooled_model: Path, transfer: str
) -> None:
    many = train(tmp_path, schooled_model, *TWO_OF_EACH, f"engine.weight_transfer={transfer}")

    assert any(series(alone, "train/grad_norm"))
    for metric in (
        "train/loss",
        "train/grad_norm",
        "train/reward",
        "train/response_length",
        "eval/pass_rate",
    ):
        assert series(many, metric) == pytest.approx(series(alone, metric), rel=1e-4, abs=1e-6), metric
    last, reference = many[-1]["compute"], alone[-1]["compute"]
    assert (last["tokens"], last["flops"]) == (reference["tokens"], reference["flops"])
    processes = json.loads((tmp_path / "driver.json").read_text())["processes"]
    assert len(processes) == 4
    # `train` returns as its program ends; the processes that it ended may need a moment on a busy machine.
    wait_until(lambda: not any(Path(f"/proc/{process}").exists() for process in processes), 20)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("program", "engine", "transfer"),
    [
        ("tests.training.cluster.toy_command", "transformers", "object_store"),
        pytest.param("training", "transformers", "object_store", marks=pytest.mark.deep),
        pytest.param("training", "transformers", "collective", marks=pytest.mark.deep),
        pytest.param("training", "vllm", "collective", marks=[pytest.mark.deep, pytest.mark.vllm]),
    ],
)
def test_run_goes_on_without_an_engine_that_is_killed(
    tmp_path: Path, toy_model: Path, program: str, engine: str, transfer: str
) -> None:
    """Of two; the last process of a vLLM engine is the one that generates."""
    two = (
        "resources.generators=2",
        "resources.generator_cpus=2",
        f"engine.weight_transfer={transfer}",
    )
    words = command(tmp_path, toy_model, *two, steps=100_000, program=program, engine=engine)
    log = tmp_path / "log"
    with log.open("w") as file:
        run = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT)
    lost = lambda: series(records(tmp_path), "perf/lost_engines")  # noqa: E731
    try:
        wait_until(lambda: lost() or run.poll() is not None, 120, "the first step")
        processes = processes_of(tmp_path)
        victim = processes[1] if engine == "transformers" else processes[-1]

        os.kill(victim, signal.SIGKILL)

        wait_until(
            lambda: (
                (lost()[-1] == 1 and len(processes_of(tmp_path)) > len(processes)) or run.poll() is not None
            ),
            120,
            "a step that tells of it, and another engine",
        )
        run.terminate()
        assert run.wait(timeout=60) == 0, log.read_text()
    finally:
        run.kill()
    assert "another one takes its place" in log.read_text() and "has loaded after" in log.read_text()
    found = records(tmp_path)
    trained = [record["step"] for record in found if "train/reward" in record["metrics"]]
    assert trained == list(range(1, len(trained) + 1)) and max(series(found, "train/staleness_max")) == 0
    for process in processes_of(tmp_path):
        wait_until(lambda process=process: not Path(f"/proc/{process}").exists(), 20)


def processes_of(run_dir: Path) -> list[int]:
    return json.loads((run_dir / "driver.json").read_text())["processes"]
