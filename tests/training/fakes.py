"""A generator and a trainer without torch, behind the driver's seams, that depend on all that they are given."""

import asyncio
import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training.flops import Work
from training.rollouts import Completion, Request, seed_of
from training.tasks import Prompt
from training.tasks.arithmetic import Arithmetic
from training.trainer.batching import Batch, StepResult
from training.verifiers.base import Isolation, Verdict

EOS, FIRST, VOCABULARY = 1, 4, 12  # of the toy model's vocabulary: digits and more


class HashTrainer:
    """Its weights are a hash of every batch so far, in order: equal weights mean equal histories."""

    def __init__(self) -> None:
        self.step = 0
        self.state = hashlib.sha256().hexdigest()
        self.trained: dict[int, list[tuple[int, ...]]] = {}  # step -> tokens of its prompts, in order
        self.tokens: dict[int, tuple[int, int]] = {}  # step -> of its responses, and of these in the loss

    async def train_step(self, batch: Batch) -> StepResult:
        await asyncio.sleep(0)
        self.step += 1
        content = [batch.tokens, batch.lengths, batch.behaviour_logp, batch.mask, batch.rewards]
        everything = self.state.encode() + b"".join(part.tobytes() for part in content)
        self.state = hashlib.sha256(everything).hexdigest()
        self.trained[self.step] = self._prompts(batch)
        in_loss, before = int(batch.mask.sum()), int(batch.mask.argmax(axis=1).sum()) + len(batch.mask)
        self.tokens[self.step] = (int(batch.lengths.sum()) - before, in_loss)
        return StepResult({"loss": int(self.state[:8], 16) / 2**32}, in_loss, Work.of(batch.lengths))

    def _prompts(self, batch: Batch) -> list[tuple[int, ...]]:
        firsts = np.unique(batch.prompt_index, return_index=True)[1]
        return [tuple(batch.tokens[row, : 1 + int(batch.mask[row].argmax())].tolist()) for row in firsts]

    async def logp(self, batch: Batch) -> np.ndarray:
        return batch.behaviour_logp

    def weights(self) -> str:
        return self.state

    async def save(self, path: str) -> None:
        Path(path).write_text(json.dumps({"step": self.step, "state": self.state}))

    async def load(self, path: str) -> int:
        saved = json.loads(Path(path).read_text())
        self.step, self.state = saved["step"], saved["state"]
        return self.step


class HashGenerator:
    """Each token depends on seed, position and weights; how long it takes depends on `pace`, and on nothing else."""

    def __init__(self, pace: int = 0, on_token: Callable[[int], None] = lambda count: None) -> None:
        self._random, self._on_token = random.Random(pace), on_token
        self.weights, self.version = "", 0
        self.num_tokens = 0
        self.requests: list[Request] = []
        self._interrupted = asyncio.Event()

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        self.requests += requests
        interrupted = self._interrupted
        return list(await asyncio.gather(*(self._complete(request, interrupted) for request in requests)))

    async def _complete(self, request: Request, interrupted: asyncio.Event) -> Completion:
        made = Completion([], [], False, [])
        while len(made.tokens) < request.max_tokens and EOS not in made.tokens:
            for _ in range(self._random.randrange(3)):
                await asyncio.sleep(0)
            if interrupted.is_set():
                return Completion(made.tokens, made.logp, False, made.versions, interrupted=True)
            assert request.seed is not None
            drawn = seed_of(request.seed, request.position + len(made.tokens), self.weights)
            made.tokens.append(EOS if drawn % 9 == 0 else FIRST + drawn % (VOCABULARY - FIRST))
            made.logp.append(-1 - drawn % 1000 / 1000)
            made.versions.append(self.version)
            self.num_tokens += 1
            self._on_token(self.num_tokens)
        return Completion(made.tokens, made.logp, EOS in made.tokens, made.versions)

    async def update_weights(self, weights: Any, version: int) -> None:
        for _ in range(self._random.randrange(4)):
            await asyncio.sleep(0)
        self.weights, self.version = weights, version

    async def interrupt(self) -> None:
        self._interrupted.set()
        self._interrupted = asyncio.Event()  # of later calls


@dataclass(frozen=True)
class EvenLength:
    """Correct if the response has an even number of characters: often both kinds in a group, often not."""

    isolation: Isolation = "inline"
    timeout_seconds: float = 1.0

    def verify(self, answer: str, response: str) -> Verdict:
        return Verdict(len(response) % 2 == 0)


class Lengths(Arithmetic):
    """The prompts of the arithmetic task with another verifier."""

    def verifier(self, prompt: Prompt) -> Any:
        return EvenLength()
