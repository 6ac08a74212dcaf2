"""Completions per second of a whole training step, beside TRL's GRPOTrainer: same model, data, loss, batch and cores.

    .venv/bin/python -m benchmarks.bench_step [--rounds 3] [--steps 16] [--ways trl shared ...]

512 completions a step (32 prompts x 16) of at most 32 tokens, CISPO with cap 5, token average, two cores. TRL runs in
an environment of its own (`make parity` makes it). The ways take turns in each round; the first quarter of each run's
steps is warm-up. Activations are bfloat16 on both sides, master weights float32, unless a way says float32:

    trl, trl-float32         GRPOTrainer, generation and training in turns on both cores
    shared, shared-float32   Headroom as on-policy as TRL: two engines and a rank of two threads, in turns on both cores
    pipeline, pipeline-float32   PipelineRL, one engine on one core, one rank on the other
    vllm                     like pipeline, with vLLM generating
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench_modes import records_of
from benchmarks.letters import make_model, write_data

ROOT = Path(__file__).resolve().parent.parent
TRL_PYTHON = ROOT / ".venv-parity" / "bin" / "python"
COMPLETIONS, GROUP, MAX_TOKENS = 512, 16, 32
TIMEOUT_SECONDS = 900

RECIPE: dict[str, Any] = {
    "name": "step",
    "title": "One step of the benchmark",
    "task": {"name": "choice", "options": {"path": "letters.jsonl", "template": "{problem}"}},
    "model": "letters",
    "budget": {"device_hours": 100.0},
    "rollout": {
        "prompts_per_step": COMPLETIONS // GROUP,
        "generations_per_prompt": GROUP,
        "max_prompt_tokens": 8,
        "max_thinking_tokens": MAX_TOKENS - 1,
        "max_answer_tokens": 1,
        "max_in_flight_prompts": 64,
        "max_untrained_prompts": 64,  # no head start: the steps measured are those of a long run
    },
    "loss": {"type": "cispo", "aggregation": "token", "eps_max": 5.0},
    "filter": {"zero_variance": "keep"},
    "curriculum": {"mode": "uniform"},
    "length": {"mode": "none"},
    "optimizer": {"lr": 1e-5, "warmup_steps": 0},
    "precision": {"generator": "bfloat16", "trainer": "bfloat16"},
    "engine": {"type": "transformers", "max_sequences": COMPLETIONS, "kv_cache_mib": 512, "compile": True},
    "trainer": {"micro_batch_tokens": 4096, "compile": True},
    "eval": {"every_steps": 1_000_000, "prompts": 8, "k": 1},
    "checkpoint": {"every_steps": 1_000_000},
}

BOTH_CORES = {"shared": True, "generator_cpus": 2, "trainer_cpus": 2, "generators": 2, "trainers": 1}
SYNCHRONOUS = {"mode": "pipeline", "k": 0}
FLOAT32 = {"generator": "float32", "trainer": "float32"}
TRL: dict[str, list[str]] = {"trl": ["--bf16"], "trl-float32": []}
WAYS: dict[str, dict[str, Any]] = {
    "shared": {"offpolicy": SYNCHRONOUS, "resources": BOTH_CORES},
    "shared-float32": {"offpolicy": SYNCHRONOUS, "resources": BOTH_CORES, "precision": FLOAT32},
    "pipeline": {"offpolicy": {"mode": "pipeline", "k": 8}},
    "pipeline-float32": {"offpolicy": {"mode": "pipeline", "k": 8}, "precision": FLOAT32},
    "vllm": {"offpolicy": {"mode": "pipeline", "k": 8}, "engine": {"type": "vllm"}},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--ways", nargs="+", default=[*TRL, *WAYS], choices=[*TRL, *WAYS])
    parser.add_argument("--trl-micro-batch", type=int, default=512)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="for Headroom's recipe"
    )
    options = parser.parse_args()
    if set(TRL) & set(options.ways) and not TRL_PYTHON.exists():
        sys.exit("TRL is not installed: `make parity` makes its environment")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        parameters = make_model(home / "models" / "letters")
        write_data(home / "data" / "letters.jsonl", 4096)
        print(f"model of {parameters / 1e6:.2f} million parameters")
        measure(options, home)


def measure(options: argparse.Namespace, home: Path) -> None:
    seconds: dict[str, list[float]] = {way: [] for way in options.ways}
    for number in range(options.rounds):
        for way in options.ways:
            steps = trl_steps(options, home, way) if way in TRL else our_steps(options, home, way, number)
            seconds[way] += steps[len(steps) // 4 :]
    print(f"{'':16}{'s a step':>10}{'least':>8}{'most':>8}{'completions/s':>16}{'ratio':>8}")
    of_trl = [median(seconds[way]) for way in TRL if way in seconds]
    baseline = min(of_trl) if of_trl else None  # the better of TRL's two
    for way, values in seconds.items():
        middle = median(values)
        ratio = f"{baseline / middle:8.2f}" if baseline else ""
        rate = COMPLETIONS / middle
        print(f"{way:16}{middle:10.3f}{min(values):8.3f}{max(values):8.3f}{rate:16.0f}{ratio}")


def trl_steps(options: argparse.Namespace, home: Path, way: str) -> list[float]:
    """Seconds of each step of TRL."""
    paths = [str(home / "models" / "letters"), str(home / "data" / "letters.jsonl")]
    command = [str(TRL_PYTHON), "-m", "benchmarks.trl_step", *paths, "--steps", str(options.steps)]
    command += ["--micro-batch", str(options.trl_micro_batch), "--threads", "2", *TRL[way]]
    environment = os.environ | {"OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1"}
    lines = output_of(command, environment)
    return [json.loads(line)["seconds"] for line in lines if line.startswith('{"seconds"')]


def our_steps(options: argparse.Namespace, home: Path, way: str, number: int) -> list[float]:
    """Seconds of each step of a run of Headroom."""
    recipe = {**RECIPE, **WAYS[way]}
    recipe["engine"] = {**RECIPE["engine"], **WAYS[way].get("engine", {})}
    file, run_dir = home / f"{way}.yaml", home / "runs" / f"{way}-{number}"
    file.write_text(json.dumps(recipe))
    command = [sys.executable, "-m", "training", "run", str(file), "--run-dir", str(run_dir)]
    command += ["--steps", str(options.steps), *(f"--set={setting}" for setting in options.set)]
    output_of(command, os.environ | {"HEADROOM_HOME": str(home)})
    metrics = [record["metrics"] for record in records_of(run_dir)]
    return [one["perf/step_seconds"] for one in metrics if "perf/step_seconds" in one]


def output_of(command: list[str], environment: dict[str, str]) -> list[str]:
    """Lines of a command; its errors end the benchmark."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout.splitlines()


if __name__ == "__main__":
    main()
