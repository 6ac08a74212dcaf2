"""What a generator gives back, and how a group of responses is made and scored. No torch, no engine."""

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from training.codec import Codec
from training.schema import Recipe
from training.tasks import Prompt, Task
from training.verifiers.service import Verification, failure_lines

if TYPE_CHECKING:
    from training.transfer import Weights

log = logging.getLogger("training")


@dataclass(frozen=True)
class Request:
    """One sequence to generate: continue `tokens` by at most `max_tokens`.

    The same request with the same weights gives the same tokens, whatever runs beside it (up to rounding).
    """

    tokens: list[int]
    max_tokens: int
    seed: int | None = None  # of its samples; None: whatever the engine draws
    position: int = 0  # of the first new token among the samples of `seed`: tokens made by an earlier request


@dataclass(frozen=True)
class Completion:
    """What was generated. `logp` are the sampling log-probabilities of `tokens`; `finished`: the model ended it."""

    tokens: list[int]
    logp: list[float]
    finished: bool
    versions: list[int]  # of the weights that made each token
    interrupted: bool = False  # `Generator.interrupt` ended it early: more would have come


class Generator(Protocol):
    """An engine, here or behind a Ray actor."""

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """All requests, in order."""

    async def update_weights(self, weights: "Weights", version: int) -> None:
        """New weights for running and later requests; returns when they are in force. Raises TransferError."""

    async def interrupt(self) -> None:
        """End all running calls of `generate` now, with what they have."""


@dataclass
class Sample:
    """One response with its prompt. `chosen` is False for tokens that were forced, not sampled."""

    prompt: list[int]
    response: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)
    chosen: list[bool] = field(default_factory=list)
    finished: bool = False
    interrupted: bool = False
    versions: list[int] = field(default_factory=list)  # of the weights that made each token
    reward: float = 0.0
    correct: bool = False
    failure: str = ""  # why the verifier could not judge; then it is not correct

    @property
    def tokens(self) -> list[int]:
        """Prompt and response."""
        return self.prompt + self.response

    @property
    def oldest_version(self) -> int:
        """Of the weights that made its tokens; 0 without any."""
        return min(self.versions, default=0)

    @property
    def newest_version(self) -> int:
        """Of the weights that made its tokens; 0 without any."""
        return max(self.versions, default=0)

    def add(self, completion: Completion) -> None:
        """Append what the policy chose."""
        self.response = self.response + completion.tokens
        self.logp = self.logp + completion.logp
        self.chosen = self.chosen + [True] * len(completion.tokens)
        self.finished = completion.finished
        self.versions = self.versions + completion.versions

    def force(self, tokens: list[int]) -> None:
        """Append tokens that the policy did not choose; they are never trained on."""
        self.response = self.response + tokens
        self.logp = self.logp + [0.0] * len(tokens)
        self.chosen = self.chosen + [False] * len(tokens)
        self.versions = self.versions + [self.newest_version] * len(tokens)
        self.interrupted = True


@dataclass(frozen=True)
class Group:
    """All samples of one prompt."""

    prompt: Prompt
    samples: list[Sample]

    @property
    def pass_rate(self) -> float:
        """Share of correct samples."""
        return sum(sample.correct for sample in self.samples) / len(self.samples)

    @property
    def has_variance(self) -> bool:
        """Whether the samples' rewards differ; where they do not, the group teaches nothing."""
        return len({sample.reward for sample in self.samples}) > 1


class Rollouts:
    """Makes scored groups with a generator."""

    def __init__(
        self,
        recipe: Recipe,
        task: Task,
        codec: Codec,
        generator: Generator,
        verification: Verification | None = None,
    ) -> None:
        self._recipe, self._task, self._codec, self._generator = recipe, task, codec, generator
        self._verification = verification or Verification()
        self._limits = random.Random(f"limits/{recipe.seed}")
        self._phrase = codec.encode(recipe.length.phrase) if recipe.length.mode == "interruption" else []

    async def groups(
        self, prompts: Sequence[Prompt], n: int, temperature: float, *, thinking_share: float = 1.0
    ) -> list[Group]:
        """`n` scored samples of each prompt. `thinking_share` of the room for thinking is open (growing lengths)."""
        samples = [Sample(tokens) for tokens in map(self.prompt_tokens, prompts) for _ in range(n)]
        await self._continue(samples, [self._first_limit(thinking_share) for _ in samples], temperature)
        room = self._max_response_tokens(thinking_share)
        cut = [sample for sample in samples if not sample.finished and len(sample.response) < room]
        if cut and self._recipe.length.mode == "interruption":
            for sample in cut:
                self._interrupt(sample)
            await self._continue(cut, [max(1, room - len(sample.response)) for sample in cut], temperature)
        groups = [Group(prompt, samples[i * n : (i + 1) * n]) for i, prompt in enumerate(prompts)]
        await asyncio.gather(*(self._score(g.prompt, sample) for g in groups for sample in g.samples))
        return groups

    async def aclose(self) -> None:
        """End the verifiers' processes."""
        await self._verification.aclose()

    async def _continue(self, samples: list[Sample], limits: list[int], temperature: float) -> None:
        requests = [Request(sample.tokens, limit) for sample, limit in zip(samples, limits, strict=True)]
        completions = await self._generator.generate(requests, temperature)
        for sample, completion in zip(samples, completions, strict=True):
            sample.add(completion)

    def prompt_tokens(self, prompt: Prompt) -> list[int]:
        """What the generator gets. ValueError where it is too long or the vocabulary cannot spell it."""
        tokens = self._codec.encode_prompt(prompt.text)
        limit = self._recipe.rollout.max_prompt_tokens
        if len(tokens) > limit:
            raise ValueError(
                f"prompt {prompt.id} has {len(tokens)} tokens; rollout.max_prompt_tokens is {limit}"
            )
        return tokens

    def _first_limit(self, thinking_share: float) -> int:
        """Tokens before the interruption (a random length, section 2), else all there is room for."""
        length = self._recipe.length
        if length.mode == "interruption":
            drawn = self._limits.randint(length.interrupt_low, length.interrupt_high)
            return max(1, round(thinking_share * drawn))
        return self._max_response_tokens(thinking_share)

    def _max_response_tokens(self, thinking_share: float) -> int:
        rollout = self._recipe.rollout
        return max(1, round(thinking_share * rollout.max_thinking_tokens)) + rollout.max_answer_tokens

    def _interrupt(self, sample: Sample) -> None:
        """End the thinking by force, unless it has ended by itself and only the answer goes on."""
        if not self._codec.has_ended_thinking(sample.response):
            sample.force(self._phrase)

    async def _score(self, prompt: Prompt, sample: Sample) -> None:
        """Reward (section 4 of the recipe): correct or not; the length penalty touches correct traces only."""
        reward, length = self._recipe.reward, self._recipe.length
        response = self._codec.decode(sample.response)
        verdict = await self._verification.verify(self._task.verifier(prompt), prompt.answer, response)
        sample.correct, sample.failure = verdict.correct, verdict.failure
        sample.reward = reward.correct if sample.correct else reward.incorrect
        if length.mode == "penalty" and sample.correct:
            left = (length.penalty_max_tokens - len(sample.response)) / length.penalty_cache_tokens
            sample.reward += min(0.0, max(-1.0, left - 1.0))


def warn_of_failures(groups: Sequence[Group]) -> None:
    """Log the first of each kind of verifier failure, with how many there were."""
    for line in failure_lines(sample.failure for group in groups for sample in group.samples):
        log.warning("%s", line)
