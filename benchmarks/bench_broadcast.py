"""New weights to four engines by broadcast (gloo): how long each stands still, against the swap itself (goal 1.2).

    .venv/bin/python -m benchmarks.bench_broadcast [--rounds N] [--engines N] [--hidden N]

Each engine is a process with a transformers engine that decodes all the time. Pause: the longest time between the end
of a step and the beginning of the next one, from the call for the weights to their use. Swap: of this, the load of the
weights into the network. Baseline: the engine stands still while the weights travel, as before they were received by a
thread. While they travel: steps a second, against those of the same engine otherwise.

Engines share the machine's cores with each other and with the sender, so that weights travel slowly here and steps
suffer; a transfer between processes of one machine says nothing about a network.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from training.addresses import Group, free_address
from training.broadcast import Meeting, Plan, Sender, plan
from training.engines.transformers_engine import TransformersEngine
from training.models import eos_token_ids
from training.pretrain import Lessons, new_model, save
from training.recipe import apply_overrides, load_recipe
from training.rollouts import Request

BUCKET_BYTES = 4 << 20  # several buckets also of a small model
REST_SECONDS = 0.5  # between two updates
GOAL = 1.2


def engine_process(folder: str, rank: int, pipe: Connection) -> None:
    """An engine that decodes without end and does what the pipe says."""
    asyncio.run(_serve(folder, rank, pipe))


async def _serve(folder: str, rank: int, pipe: Connection) -> None:
    recipe = apply_overrides(
        load_recipe("tiny/scalerl"),
        {
            "model": folder,
            "engine.type": "transformers",
            "precision.generator": "float32",
            "engine.kv_cache_mib": 64,
        },
    )
    engine = TransformersEngine(recipe, Path(folder), 1)
    notes = Notes(engine)
    address, planned = pipe.recv()
    await engine.join_broadcast(address, planned)
    decoding = asyncio.create_task(_decode(engine))
    pipe.send("ready")
    while (order := await asyncio.to_thread(pipe.recv)) is not None:
        group, version, stands_still = order
        await asyncio.sleep(REST_SECONDS)
        usual, began = notes.usual(REST_SECONDS), time.perf_counter()
        await engine.receive_weights(group, rank)
        pipe.send("receiving")
        if stands_still:
            engine._intake._thread.join()  # type: ignore[union-attr]  # the event loop, and so the engine, waits
        else:
            await asyncio.to_thread(pipe.recv)  # all have confirmed
        await engine.use_weights(version)
        ended = time.perf_counter()
        await asyncio.sleep(0.05)  # some steps more
        pause, swap, rate = notes.of(began, ended)
        pipe.send((pause, swap, rate / usual))
    decoding.cancel()


class Notes:
    """When an engine's steps began and ended, and how long its newest load took; seconds."""

    def __init__(self, engine: TransformersEngine) -> None:
        self._steps: list[tuple[float, float]] = []
        self._load_seconds = 0.0
        step, load = engine._decoder.step, engine._load

        def noted_step(version: int) -> None:
            began = time.perf_counter()
            step(version)
            self._steps.append((began, time.perf_counter()))

        def noted_load(new: Any, version: int) -> None:
            began = time.perf_counter()
            load(new, version)
            self._load_seconds = time.perf_counter() - began

        engine._decoder.step = noted_step  # type: ignore[method-assign]
        engine._load = noted_load  # type: ignore[method-assign]

    def of(self, began: float, ended: float) -> tuple[float, float, float]:
        """(pause, swap, steps a second) of an update from `began` to `ended`."""
        gaps = [
            after[0] - before[1]
            for before, after in zip(self._steps, self._steps[1:], strict=False)
            if after[0] >= began and before[1] <= ended
        ]
        steps = sum(began <= end <= ended for _, end in self._steps)
        return max(gaps), self._load_seconds, steps / (ended - began)

    def usual(self, seconds: float) -> float:
        """Steps a second lately."""
        now = time.perf_counter()
        return sum(end > now - seconds for _, end in self._steps) / seconds


async def _decode(engine: TransformersEngine) -> None:
    while True:
        await engine.generate([Request([5, 6], 60)] * 4, 1.0)


class Bench:
    """A sender and its engines."""

    def __init__(self, folder: Path, model: Any, count: int) -> None:
        self._named = {
            name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"
        }
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for rank in range(1, count + 1):
            here, there = context.Pipe()
            process = context.Process(target=engine_process, args=(str(folder), rank, there), daemon=True)
            process.start()
            self._pipes.append(here)
            self._processes.append(process)
        address = free_address("127.0.0.1")
        meeting, self._group = Meeting(address, listens=True), Group(1, count + 1)
        planned: Plan = plan(self._named.items())
        for pipe in self._pipes:
            pipe.send((address, planned))
        for pipe in self._pipes:
            pipe.recv()
        self._sender: Sender | None = None
        self._meeting, self._version = meeting, 0

    def one(self, *, stands_still: bool) -> list[tuple[float, float, float]]:
        """(pause, swap, steps against the usual) of each engine; seconds."""
        self._version += 1
        for pipe in self._pipes:
            pipe.send((self._group, self._version, stands_still))
        for pipe in self._pipes:
            pipe.recv()
        if self._sender is None:
            self._sender = Sender(self._meeting, self._group)
        self._sender.send(self._named.items(), BUCKET_BYTES)
        if not stands_still:
            for pipe in self._pipes:
                pipe.send("all have confirmed")
        return [pipe.recv() for pipe in self._pipes]

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join(30)


def main() -> None:
    """Medians over rounds and engines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lessons = Lessons(hidden=options.hidden, layers=4, heads=4, mlp=4 * options.hidden, context=96)
    model = new_model(lessons)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "model"
        save(model, lessons, folder)
        assert eos_token_ids(folder)
        bench = Bench(folder, model, options.engines)
        bench.one(stands_still=False)  # the group is made
        found: dict[bool, list[tuple[float, float, float]]] = {True: [], False: []}
        for _ in range(options.rounds):
            for stands_still in (True, False):
                found[stands_still] += bench.one(stands_still=stands_still)
        bench.close()
    size = sum(tensor.nbytes for tensor in model.state_dict().values()) / 1e6
    print(f"{size:.1f} MB of weights to {options.engines} engines, {options.rounds} rounds, medians")
    for stands_still, words in ((True, "engines stand still"), (False, "engines go on")):
        pause, swap, rate = (statistics.median(one[i] for one in found[stands_still]) for i in range(3))
        ratio = statistics.median(pause / swap for pause, swap, _ in found[stands_still])
        print(
            f"{words}: pause {1e3 * pause:.1f} ms, swap {1e3 * swap:.1f} ms: {ratio:.2f} times (goal {GOAL}); "
            f"{rate:.2f} of the usual steps a second meanwhile"
        )


if __name__ == "__main__":
    main()
