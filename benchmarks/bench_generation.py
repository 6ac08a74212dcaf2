"""Completions and tokens a second: the transformers engine against vLLM, by model size, threads and shape of the load.

    .venv/bin/python -m benchmarks.bench_generation [--sizes 0.3 0.7 3 12 50] [--threads 1 2] [--repeats N]

Untaught Qwen2-shaped models with the default task's vocabulary of 17 tokens, which the script makes; no token ends a
response, so that each has its full length. Every engine has a process of its own, the two of a pair run one after the
other; a figure is the median of the repeats after a first one that is not counted. Both get the same settings.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENGINES = ("transformers", "vllm")
LAUNCH_TIMEOUT_SECONDS = 1800


@dataclass(frozen=True)
class Load:
    """`requests` prompts of `prompt` tokens, 16 of each kind, each continued by `response` tokens."""

    requests: int
    prompt: int
    response: int


LOADS = (Load(512, 8, 32), Load(128, 16, 200), Load(16, 16, 200))
SIZES = {  # millions of parameters: hidden, layers, heads, mlp
    "0.3": (128, 2, 4, 256),
    "0.7": (128, 4, 4, 256),
    "3": (256, 4, 4, 640),
    "12": (384, 6, 6, 1152),
    "50": (640, 8, 10, 2304),
}


def make_model(size: str, folder: Path) -> None:
    import torch

    from training.pretrain import Lessons, new_model, save

    torch.manual_seed(0)
    hidden, layers, heads, mlp = SIZES[size]
    lessons = Lessons(hidden=hidden, layers=layers, heads=heads, mlp=mlp, context=256)
    save(never_ending(new_model(lessons)), lessons, folder)


def never_ending(model: Any) -> Any:
    """The model, changed so that it never samples the end of a response."""
    import torch

    with torch.no_grad():  # one channel is large for every token, and the end's logit is minus that
        model.get_input_embeddings().weight[:, 0] = 10.0
        model.get_output_embeddings().weight[:, 0] = 0.0
        model.get_output_embeddings().weight[model.config.eos_token_id, 0] = -100.0
    return model


def measure(engine: str, folder: Path, threads: int, dtype: str, repeats: int) -> None:
    """Runs in a process of its own; prints seconds by load."""
    from training.engines import make_engine
    from training.recipe import apply_overrides, load_recipe
    from training.rollouts import Request

    overrides = {
        "model": str(folder),
        "engine.type": engine,
        "engine.max_sequences": 512,
        "engine.kv_cache_mib": 2048,
        "precision.generator": dtype,
        "rollout.max_prompt_tokens": 16,
        "rollout.max_thinking_tokens": 192,
        "resources.generator_cpus": threads,
    }
    recipe = apply_overrides(load_recipe("tiny/scalerl"), overrides)

    async def work() -> dict[str, float]:
        made = make_engine(recipe.model_dump(mode="json"), str(folder), threads)
        seconds = {}
        for number, load in enumerate(LOADS):
            kinds = [[4 + (i // 16 + j) % 13 for j in range(load.prompt)] for i in range(load.requests)]
            taken = []
            for _ in range(repeats + 1):
                start = time.perf_counter()
                completions = await made.generate([Request(kind, load.response) for kind in kinds], 1.0)
                taken.append(time.perf_counter() - start)
                assert all(len(completion.tokens) == load.response for completion in completions)
            seconds[str(number)] = statistics.median(taken[1:])
        made.shutdown()
        return seconds

    print("RESULT " + json.dumps(asyncio.run(work())), flush=True)


def in_a_process(engine: str, folder: Path, threads: int, dtype: str, repeats: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.bench_generation", "--measure", engine, str(folder)]
    command += [str(threads), dtype, str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LAUNCH_TIMEOUT_SECONDS)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return dict(json.loads(line.removeprefix("RESULT ")))
    raise RuntimeError(f"{engine} gave no result:\n{done.stderr[-4000:]}")


def row(size: str, threads: int, load: Load, seconds: dict[str, float]) -> str:
    """One line of the table; the ratio is the winner's advantage."""
    cells = [
        f"{load.requests / s:8.0f}/s{load.requests * load.response / s:9.0f}/s" for s in seconds.values()
    ]
    winner, loser = sorted(seconds, key=lambda engine: seconds[engine])
    ratio = seconds[loser] / seconds[winner]
    shape = f"{load.requests} x {load.prompt}+{load.response}"
    return f"{size:>5}M {threads:>7} {shape:>14} {'  '.join(cells)}   {winner} {ratio:.2f}x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        engine, folder, threads, dtype, repeats = options.measure
        measure(engine, Path(folder), int(threads), dtype, int(repeats))
        return
    print(f"{'':29}{'transformers':>21}{'vllm':>23}   ({options.dtype})")
    print(f" size threads {'load':>14} {'completions  tokens':>21}  {'completions  tokens':>21}   faster")
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "model"
            make_model(size, folder)
            for threads in options.threads:
                results = {
                    engine: in_a_process(engine, folder, threads, options.dtype, options.repeats)
                    for engine in ENGINES
                }
                for number, load in enumerate(LOADS):
                    seconds = {engine: result[str(number)] for engine, result in results.items()}
                    print(row(size, threads, load, seconds), flush=True)


if __name__ == "__main__":
    main()
