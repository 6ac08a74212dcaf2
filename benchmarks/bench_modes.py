"""PipelineRL-8 against PPO-off-policy-8 and against synchronous training: seconds to a held-out pass rate.

    HEADROOM_HOME=DIR .venv/bin/python -m benchmarks.bench_modes [--seeds 3] [--first-seed 0] [--target 0.8]
        [--engine vllm] [--keep DIR]

Two-digit sums with the base model of `python -m training pretrain`, by the command that users run (local Ray, journal,
evaluations). The first three modes have the same split: one core generates, one trains. The fourth has the two take
turns on both cores, so that nobody takes the split itself for a property of synchronous training. Modes alternate
within each seed; all other settings are equal.

Seconds are those of the training clock: no evaluation, no loading. "All" is the clock on the wall from the evaluation
before the first update, evaluations and checkpoints included. The crossing is that of the isotonic fit through the
evaluations (pass rates that never fall, least squares), linear between two of them: a lucky evaluation is no crossing.
Idle shares are means over the steps up to there, weighted by their seconds.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

ROOT = Path(__file__).resolve().parent.parent
LIMIT_SECONDS = 240.0  # of one run, all included
GOAL = 0.67  # PipelineRL-8's seconds, as a share of another mode's
SPLIT = {"resources.generator_cpus": 1, "resources.trainer_cpus": 1}
SHARED = {
    "resources.generator_cpus": 2,
    "resources.generators": 2,  # two engines of one thread are faster than one of two
    "resources.trainer_cpus": 2,
    "resources.shared": "true",
}
MODES: dict[str, dict[str, Any]] = {
    "PipelineRL-8": {"offpolicy.mode": "pipeline", "offpolicy.k": 8} | SPLIT,
    "PPO-off-policy-8": {"offpolicy.mode": "ppo", "offpolicy.k": 8} | SPLIT,
    "synchronous": {"offpolicy.mode": "pipeline", "offpolicy.k": 0} | SPLIT,
    "synchronous, both cores each": {"offpolicy.mode": "pipeline", "offpolicy.k": 0} | SHARED,
}
COMMON: dict[str, Any] = {
    "task.options": "{min_digits: 2, max_digits: 2, train_prompts: 2048, held_out_pool: 1024}",
    "rollout.prompts_per_step": 32,
    "rollout.generations_per_prompt": 16,
    "rollout.max_in_flight_prompts": 256,  # a whole block of PPO-off-policy-8
    "rollout.max_untrained_prompts": 64,  # PipelineRL alone: what waits is at most two batches
    "curriculum.mode": "uniform",
    "optimizer.lr": 5e-5,
    "eval.every_steps": 8,  # also the end of a block
    "eval.prompts": 256,
    "eval.k": 2,
    "checkpoint.every_steps": 100_000,
    "budget.device_hours": 1.0,
}


@dataclass(frozen=True)
class Crossing:
    """Where one run reached the target."""

    seconds: float  # training clock
    all_seconds: float
    step: float
    generator_idle: float
    trainer_idle: float


def train(mode: str, seed: int, folder: Path, engine: str, target: float) -> list[dict[str, Any]]:
    """The run's records. It is stopped once two evaluations in a row are clearly above the target."""
    settings = COMMON | MODES[mode]
    command = [sys.executable, "-m", "training", "run", "tiny/scalerl", "--run-dir", str(folder)]
    command += ["--engine", engine, "--seed", str(seed)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    folder.mkdir(parents=True)
    with (folder / "output.log").open("w") as log:
        run = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + LIMIT_SECONDS
    try:
        while run.poll() is None and time.monotonic() < deadline:
            rates = [rate for _, rate in evaluations(records_of(folder))]
            if len(rates) > 2 and min(rates[-2:]) > target + 0.02:
                run.send_signal(signal.SIGTERM)
                run.wait(60)
            time.sleep(1)
    finally:
        if run.poll() is None:
            run.send_signal(signal.SIGTERM)
            run.wait(60)
    if run.returncode:
        raise RuntimeError(f"{mode} failed:\n{(folder / 'output.log').read_text()[-2000:]}")
    return records_of(folder)


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Whole lines of the journal."""
    journal = folder / "metrics.jsonl"
    lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def evaluations(records: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], float]]:
    """(record, pass rate) of each evaluation."""
    return [(r, r["metrics"]["eval/pass_rate"]) for r in records if "eval/pass_rate" in r["metrics"]]


def crossing(records: Sequence[dict[str, Any]], target: float) -> Crossing | None:
    """Where the isotonic fit reaches the target; None where it does not."""
    evaluated = evaluations(records)
    fitted = isotonic_regression(np.array([rate for _, rate in evaluated])).x
    reached = int(np.searchsorted(fitted, target))
    if reached in (0, len(fitted)):
        return None
    share = (target - fitted[reached - 1]) / (fitted[reached] - fitted[reached - 1])
    before, after = evaluated[reached - 1][0], evaluated[reached][0]
    resources = MODES["synchronous"]
    devices = (
        resources["resources.generator_cpus"] + resources["resources.trainer_cpus"]
    )  # shared ones count once

    def between(first: float, second: float) -> float:
        return float(first + share * (second - first))

    started = moment(evaluated[0][0])
    step = between(before["step"], after["step"])
    idle = idle_shares([r["metrics"] for r in records if 0 < r["step"] <= step])
    clock = between(before["compute"]["device_hours"], after["compute"]["device_hours"]) * 3600 / devices
    return Crossing(clock, between(moment(before), moment(after)) - started, step, *idle)


def moment(record: dict[str, Any]) -> float:
    return datetime.fromisoformat(record["time"]).timestamp()


def idle_shares(metrics: Sequence[dict[str, float]]) -> tuple[float, float]:
    """(generator's, trainer's), weighted by the seconds of each step."""
    steps = [m for m in metrics if "perf/step_seconds" in m]
    weights = [m["perf/step_seconds"] for m in steps]
    generator = np.average([m["perf/generator_idle"] for m in steps], weights=weights)
    return float(generator), float(np.average([m["perf/trainer_idle"] for m in steps], weights=weights))


def show(results: dict[str, list[Crossing]], target: float) -> None:
    """Medians, and PipelineRL-8 as a share of each other mode."""
    first = next(iter(results))
    print(
        f"\n{'seconds to ' + str(target):32} {'training':>9} {'all':>7} {'steps':>6} {'generator':>10} {'trainer':>8}"
    )
    print(f"{'':32} {'clock':>9} {'':>7} {'':>6} {'idle':>10} {'idle':>8}   {first} / it (goal {GOAL})")
    for mode, runs in results.items():
        if not runs:
            print(f"{mode:32} never reached it")
            continue
        value = {name: statistics.median(getattr(run, name) for run in runs) for name in vars(runs[0])}
        base = [run.seconds for run in results[first]]
        ratio = f"{statistics.median(base) / value['seconds']:.2f}" if mode != first and base else ""
        print(
            f"{mode:32} {value['seconds']:9.1f} {value['all_seconds']:7.1f} {value['step']:6.0f} "
            f"{value['generator_idle']:10.0%} {value['trainer_idle']:8.0%}   {ratio:8} "
            f"{' '.join(f'{run.seconds:.1f}' for run in runs)}",
            flush=True,
        )


def main() -> None:
    """Print one line a run, and a table of medians at the end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0, help="e.g. 2: seeds 2, 3 and so on")
    parser.add_argument("--target", type=float, default=0.8)
    parser.add_argument("--engine", choices=["transformers", "vllm"], default="transformers")
    parser.add_argument("--modes", nargs="*", choices=list(MODES), default=list(MODES))
    parser.add_argument("--keep", type=Path, help="folder for the runs; by default a temporary one")
    options = parser.parse_args()
    from training.models import BASE_MODEL, find_model

    find_model(BASE_MODEL)  # says how to make it, if there is none
    os.environ.pop("RAY_ADDRESS", None)
    results: dict[str, list[Crossing]] = {mode: [] for mode in options.modes}
    with tempfile.TemporaryDirectory() as temporary:
        root = options.keep or Path(temporary)
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for number, mode in enumerate(options.modes):
                found = crossing(
                    train(mode, seed, root / f"{number}-{seed}", options.engine, options.target),
                    options.target,
                )
                print(f"seed {seed}  {mode}: {found or 'never reached the target'}", flush=True)
                results[mode] += [found] if found else []
    show(results, options.target)


if __name__ == "__main__":
    main()
