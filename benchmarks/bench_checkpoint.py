"""For how long a checkpoint holds the training, and what a step costs while it is written.

    .venv/bin/python -m benchmarks.bench_checkpoint [--rounds 3] [--threads 2]

A Qwen2-shaped model of 102M parameters with AdamW's moments on the CPU, 1.2 GB a checkpoint. Held before: trainer's
part, fsync, SHA-256 of it all and the move, one after the other, which is what a run waited for. Held now: the copy of
the state into the host's memory; the rest goes on beside the steps. On a CPU those compete with it for the same cores:
the last line counts that too, as what a checkpoint costs the training in all.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.bench_trainer import Setting, make_trainer, random_batch
from training.checkpoints import write_checkpoint
from training.trainer.batching import Batch
from training.trainer.trainer import Trainer

SHAPE = Qwen2Config(
    hidden_size=640,
    intermediate_size=1792,
    num_hidden_layers=12,
    num_attention_heads=10,
    num_key_value_heads=10,
    vocab_size=32_000,
    max_position_embeddings=128,
)
SETTING = Setting("cpu", SHAPE, rows=16, prompt=8, response=56, micro_batch_tokens=1024)


class Run:
    """A trainer, and a folder for its checkpoints."""

    def __init__(self, trainer: Trainer, batch: Batch, root: Path) -> None:
        self._trainer, self._batch, self._root, self._step = trainer, batch, root, 0

    def step(self) -> float:
        """Seconds of one update."""
        began = time.perf_counter()
        self._trainer.train_step(self._batch)
        return time.perf_counter() - began

    def begin(self) -> tuple[float, Coroutine[Any, Any, Path]]:
        """(seconds until the next step may begin, the rest)."""
        self._step += 1

        def save(path: str) -> Awaitable[None]:
            self._trainer.begin_save(path)
            return asyncio.to_thread(self._trainer.end_save)

        began = time.perf_counter()
        rest = write_checkpoint(self._root, self._step, lambda: {"driver.json": b"{}"}, save, keep=1)
        return time.perf_counter() - began, rest

    def held(self) -> float:
        """Seconds of a checkpoint without the copy, with nothing beside it."""
        _, rest = self.begin()
        began = time.perf_counter()
        asyncio.run(rest)
        return time.perf_counter() - began

    async def beside_steps(self) -> tuple[float, list[float], float]:
        """(seconds until the next step may begin, of the steps that began while it was written, until it was there)."""
        steps: list[float] = []
        began = time.perf_counter()
        held, rest = self.begin()
        writing = asyncio.create_task(rest)
        while not writing.done():
            steps.append(await asyncio.to_thread(self.step))
        await writing
        return held, steps, time.perf_counter() - began


def made(folder: Path, threads: int) -> Run:
    """After one step, so that there are moments."""
    torch.manual_seed(0)
    network: Any = Qwen2ForCausalLM(SHAPE)
    print(f"{sum(p.numel() for p in network.parameters()) / 1e6:.0f}M parameters", flush=True)
    network.save_pretrained(folder / "model")
    del network
    trainer = make_trainer(SETTING, folder / "model", threads, {"precision.trainer": "float32"})
    lengths = np.full(SETTING.rows, SETTING.response)
    run = Run(trainer, random_batch(np.random.default_rng(0), SETTING, lengths), folder / "checkpoints")
    run.step()
    return run


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headroom-checkpoint-") as folder:
        run = made(Path(folder), options.threads)
        alone = statistics.median(run.step() for _ in range(3 * options.rounds))
        before = statistics.median(run.held() for _ in range(options.rounds))
        found = [asyncio.run(run.beside_steps()) for _ in range(options.rounds)]
    held = statistics.median(one[0] for one in found)
    cost = statistics.median(one[0] + sum(step - alone for step in one[1]) for one in found)
    print(f"held before {before:.2f} s, now {held:.2f} s: {before / held:.1f} times less")
    print(
        f"steps {alone:.2f} s alone, {statistics.median(s for one in found for s in one[1]):.2f} s beside it; "
        f"complete after {statistics.median(one[2] for one in found):.2f} s"
    )
    print(f"in all it costs {cost:.2f} s of training on shared cores: {before / cost:.1f} times less")


if __name__ == "__main__":
    main()
