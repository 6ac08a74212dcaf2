"""What the driver itself costs: its code with 64 engines and a trainer that compute nothing, 12,000 tokens a response.

    .venv/bin/python -m benchmarks.bench_driver [--engines 64] [--steps 3] [--profile]

768 completions a step, as `scalerl` has them, every one interrupted at 10,000 to 12,000 tokens and gone on with.
Requests are packed and completions unpacked here as Ray does it for its driver; what engines and trainer do in the
place of real ones is not counted. CPU seconds of the driver's process for 1,000 completions, goal: 10 % of a core at a
step a minute.
"""

import argparse
import asyncio
import cProfile
import pickle  # nosec B403  # of this process's own
import pstats
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen2Config, Qwen2ForCausalLM

from training.codec import Codec
from training.driver.controller import Controller
from training.driver.snapshot import Attempt
from training.engines.pool import EnginePool
from training.flops import ModelShape, Work
from training.recipe import apply_overrides, load_recipe
from training.rollouts import Completion, Request
from training.schema import Recipe
from training.tasks import make_task
from training.trainer.batching import Batch, StepResult

EOS, VOCABULARY, ANSWER_TOKENS = "<eos>", 8000, 200
STEP_SECONDS, GOAL = 60.0, 0.1
DOCS = sorted((Path(__file__).resolve().parent.parent / "docs").glob("*.md"))


class Elsewhere:
    """Counts CPU time that in a run is another process's."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def work(self) -> Iterator[None]:
        """What happens elsewhere."""
        began = time.process_time()
        yield
        self.seconds += time.process_time() - began


class Engine:
    """Makes what it is asked for, of random tokens."""

    def __init__(self, seed: int, elsewhere: Elsewhere, ids: Sequence[int], eos: int) -> None:
        self.name = f"engine {seed}"
        self._random, self._elsewhere, self._eos = random.Random(seed), elsewhere, eos
        self._tokens = self._random.choices(ids, k=20_000)
        self._version = 0

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """After a moment; the second part of a response ends it."""
        pickle.dumps(requests, protocol=5)
        with self._elsewhere.work():
            made = pickle.dumps([self._completion(request) for request in requests], protocol=5)
        await asyncio.sleep(self._random.uniform(0.01, 0.05))
        return pickle.loads(made)  # nosec B301

    def _completion(self, request: Request) -> Completion:
        count = min(request.max_tokens, ANSWER_TOKENS) if request.position else request.max_tokens
        tokens = self._tokens[:count]
        if request.position:
            tokens[-1] = self._eos
        return Completion(tokens, [-0.5] * count, bool(request.position), [self._version] * count)

    async def update_weights(self, weights: Any, version: int) -> None:
        self._version = version

    async def interrupt(self) -> None: ...


class Trainer:
    """Takes batches."""

    def __init__(self) -> None:
        self.completions = 0

    async def train_step(self, batch: Batch) -> StepResult:
        pickle.dumps(batch, protocol=5)
        self.completions += len(batch)
        return StepResult({}, int(batch.mask.sum()), Work.of(batch.lengths))

    async def logp(self, batch: Batch) -> np.ndarray:
        return batch.behaviour_logp

    def weights(self) -> None: ...

    async def save(self, path: str) -> None:
        Path(path).write_text("")

    async def load(self, path: str) -> int:
        raise NotImplementedError


class Reporter:
    """Keeps nothing."""

    def log(self, metrics: dict[str, float], *, step: int, compute: dict[str, float]) -> None: ...

    def log_samples(self, step: int, rows: Any, *, kind: str = "train") -> None: ...

    def finish(self, *args: Any, **options: Any) -> bool:
        return True


def write_model(folder: Path) -> None:
    """A byte-level tokenizer, taught by the docs, and some model."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [EOS, "<think>", "</think>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train([str(page) for page in DOCS], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    shape = Qwen2Config(
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        vocab_size=VOCABULARY,
        eos_token_id=0,
        tie_word_embeddings=True,
    )
    network: Any = Qwen2ForCausalLM(shape)
    network.save_pretrained(folder)


def recipe_of(folder: Path, steps: int) -> Recipe:
    """`scalerl` with sums for a task."""
    return apply_overrides(
        load_recipe("scalerl"),
        {
            "model": str(folder),
            "task.name": "arithmetic",
            "task.options": {},
            "resources": {},
            "filter.zero_variance": "keep",
            "offpolicy.k": 0,  # as many are made as are trained on
            "budget.max_steps": steps,
            "budget.device_hours": 1000.0,
            "eval": {"every_steps": 1000, "prompts": 1, "k": 1},
            "checkpoint.every_steps": 1000,
        },
    )


async def drive(folder: Path, engines: int, steps: int) -> tuple[int, float, float]:
    """(completions, CPU seconds of the driver, seconds)."""
    recipe, codec = recipe_of(folder, steps), Codec(folder)
    elsewhere, trainer = Elsewhere(), Trainer()
    made = [Engine(number, elsewhere, range(3, VOCABULARY), codec.eos_ids[0]) for number in range(engines)]
    attempt = Attempt(
        recipe=recipe,
        task=make_task("arithmetic", recipe.task.options),
        codec=codec,
        generator=EnginePool(made),
        trainer=trainer,
        reporter=Reporter(),  # type: ignore[arg-type]
        run_dir=folder / "run",
        shape=ModelShape.of(folder),
    )
    began, cpu = time.perf_counter(), time.process_time()
    await Controller(attempt).run()
    return trainer.completions, time.process_time() - cpu - elsewhere.seconds, time.perf_counter() - began


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engines", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="where the time goes; it then takes longer")
    options = parser.parse_args(arguments)
    profile = cProfile.Profile()
    with tempfile.TemporaryDirectory(prefix="headroom-driver-") as folder:
        write_model(Path(folder))
        if options.profile:
            profile.enable()
        completions, cpu, seconds = asyncio.run(drive(Path(folder), options.engines, options.steps))
        profile.disable()
    each = 1000 * cpu / completions
    share = each * 768 / 1000 / STEP_SECONDS
    print(
        f"{completions} completions in {seconds:.1f} s; the driver: {each:.2f} s of a core for 1,000 completions"
    )
    print(f"at 768 a step and a step a minute {share:.1%} of a core (goal {GOAL:.0%})")
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
