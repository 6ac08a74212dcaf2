"""New weights while 128 requests are generating: milliseconds from call to return, with both engines.

    .venv/bin/python -m benchmarks.bench_weights [--rounds N] [--engine vllm|transformers]

No token ends a response, so that all requests are running whenever the weights come. The ways take turns, round after
round; the call comes from another thread, so that it also waits for the step that is under way, as a call from the
trainer does. Baselines: `drain` waits until all requests are done and then loads (stop the world); `disk` (vLLM alone)
writes a checkpoint and has vLLM read it, with requests running.

For vLLM it also says where an update's time goes, and how long a step of the 128 requests takes: an update waits for
the step under way, whatever it does itself.
"""

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks.bench_generation import never_ending
from training.engines import make_engine
from training.engines.vllm_engine import UpdateSeconds
from training.pretrain import Lessons, new_model, save
from training.recipe import apply_overrides, load_recipe
from training.rollouts import Completion, Request
from training.transfer import Weights, pack, unpack

REQUESTS, TOKENS = 128, 120
GOAL_MILLISECONDS = 20.0


class Bench:
    """One engine in its own event loop, in a thread of its own; `ask` calls it from outside."""

    def __init__(self, engine: str, folder: Path) -> None:
        recipe = apply_overrides(
            load_recipe("tiny/scalerl"),
            {
                "model": str(folder),
                "engine.type": engine,
                "precision.generator": "float32",
                "rollout.max_thinking_tokens": 180,
            },
        )
        self.is_vllm, self._folder = engine == "vllm", folder
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

        async def make() -> Any:
            return make_engine(recipe.model_dump(mode="json"), str(folder))

        self.engine = self.ask(make())
        self.weights = [weights_of(seed) for seed in range(2)]
        self._version = 0

    def ask(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=300)

    def one(self, way: str) -> tuple[float, list[Completion]]:
        """(milliseconds, completions) of one update by `way`."""
        running = asyncio.run_coroutine_threadsafe(self.engine.generate(some_requests(), 1.0), self._loop)
        time.sleep(0.15)  # somewhere in the middle
        self._version += 1
        weights = self.weights[self._version % 2]
        start = time.perf_counter()
        if way == "drain":
            running.result(timeout=300)
        self.ask(self._load(way, weights))
        return (time.perf_counter() - start) * 1e3, running.result(timeout=300)

    def _load(self, way: str, weights: Weights) -> Awaitable[None]:
        if way == "disk":
            return self._from_disk(weights)
        self.engine.kv_on_update = "rebuild" if way == "rebuild" else "keep"
        return self.engine.update_weights(weights, self._version)

    async def _from_disk(self, weights: Weights) -> None:
        save_file(dict(unpack(weights.buckets)), self._folder / "model.safetensors")
        arguments = {"weights_path": str(self._folder)}
        await self.engine._engine.collective_rpc("reload_weights", kwargs=arguments)


def weights_of(seed: int) -> Weights:
    torch.manual_seed(seed)
    return pack(never_ending(new_model(Lessons(context=256))).state_dict().items())


def some_requests() -> list[Request]:
    return [Request([4 + i % 10] * 8, TOKENS) for i in range(REQUESTS)]


def lost(completions: list[Completion]) -> int:
    """Requests that did not come back whole, or whose versions go backwards: begun anew."""
    return sum(
        not (c.finished or len(c.tokens) == TOKENS) or c.versions != sorted(c.versions) for c in completions
    ) + (REQUESTS - len(completions))


def measure(engine: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "model"
        model = never_ending(new_model(Lessons(context=256)))
        save(model, Lessons(context=256), folder)
        bench = Bench(engine, folder)
        ways = ["keep", "rebuild", "drain", *(["disk"] if bench.is_vllm else [])]
        taken: dict[str, list[float]] = {way: [] for way in ways}
        num_lost = num_crossed = 0
        parts: list[UpdateSeconds] = []
        for turn in range(rounds + 2):
            for way in ways:
                milliseconds, completions = bench.one(way)
                if turn >= 2:  # the first ones pay for lazy imports
                    taken[way].append(milliseconds)
                    parts += [bench.engine.update_seconds] if bench.is_vllm and way == "keep" else []
                    num_lost += lost(completions)
                    num_crossed += sum(len(set(c.versions)) > 1 for c in completions)
        report(engine, sum(p.numel() for p in model.parameters()), taken)
        print(f"requests lost or begun anew: {num_lost}; with tokens of two versions: {num_crossed}")
        if parts:
            show_parts(parts)
        step = timed(lambda: bench.ask(bench.engine.generate(some_requests(), 1.0)), times=3) / TOKENS
        print(f"one step of {REQUESTS} requests: {step:.1f} ms")
        packing = timed(lambda: pack(model.state_dict().items()))
        print(f"packing on the trainer's side: {packing:.1f} ms")
        bench.engine.shutdown()


def show_parts(parts: Sequence[UpdateSeconds]) -> None:
    """Medians, of updates that keep the KV cache."""
    middle = {name: statistics.median(vars(part)[name] * 1e3 for part in parts) for name in vars(parts[0])}
    print(
        "of keep: {waiting:.1f} ms waiting for the step under way, messages included, {loading:.1f} ms loading in the "
        "worker".format(**middle)
    )


def timed(work: Callable[[], Any], times: int = 9) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def report(engine: str, parameters: int, taken: dict[str, list[float]]) -> None:
    keep = statistics.median(taken["keep"])
    print(f"\n{engine}, {parameters / 1e6:.2f}M parameters, {REQUESTS} requests running")
    print(f"{'way':10}{'median':>11}{'largest':>11}{'/ keep':>9}{'/ goal':>9}")
    for way, values in taken.items():
        median = statistics.median(values)
        ratios = f"{median / keep:9.2f}{median / GOAL_MILLISECONDS:9.2f}"
        print(f"{way:10}{median:8.1f} ms{max(values):8.1f} ms{ratios}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--engine", choices=["vllm", "transformers"], help="one alone (default: both)")
    options = parser.parse_args()
    torch.set_num_threads(1)  # of this thread: the other core is the engine's
    for engine in [options.engine] if options.engine else ["transformers", "vllm"]:
        measure(engine, options.rounds)


if __name__ == "__main__":
    main()
