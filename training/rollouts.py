"""What a generator gives back, and how a group of responses is made and scored. No torch, no engine."""

import asyncio
import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from training.codec import Codec
from training.schema import Recipe
from training.tasks import Prompt, Task
from training.verifiers.service import Verification, failure_lines
from training.verifiers.text import BEGIN_THINK
from training.waiting import Timeouts, blame, within

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
    position: int = 0  # tokens of the response that are in `tokens` already: where an interrupted one goes on
    begun: int | None = (
        None  # version of the weights that made the first of these: whose cache may still be there
    )


@dataclass(frozen=True)
class Completion:
    """What was generated. `logp` are the sampling log-probabilities of `tokens`; `finished`: the model ended it."""

    tokens: list[int]
    logp: list[float]
    finished: bool
    versions: list[int]  # of the weights that made each token
    interrupted: bool = False  # `Generator.interrupt` ended it early: more would have come

    @classmethod
    def unstarted(cls) -> "Completion":
        """Of a request that was interrupted before its first token."""
        return cls([], [], False, [], interrupted=True)


class Generator(Protocol):
    """An engine, here or behind a Ray actor."""

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """All requests, in order."""

    async def update_weights(self, weights: "Weights", version: int) -> int | None:
        """New weights for running and later requests; returns when they are in force: their version, where that is
        not the one that was asked for. Raises TransferError."""

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
    interrupted: bool = False  # its thinking was ended by force
    versions: list[int] = field(default_factory=list)  # of the weights that made each token
    reward: float = 0.0
    correct: bool = False
    failure: str = ""  # why the verifier could not judge; then it is not correct
    reason: str = ""  # why it is not correct, where the verifier says

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


@dataclass
class Draft:
    """A group on its way: enough to go on with it, also in a later attempt of the run.

    `key` names it: every random number of its samples depends on recipe.seed and key alone.
    """

    prompt: Prompt
    samples: list[Sample]
    key: str
    thinking_share: float = 1.0  # of the room for thinking is open (growing lengths)

    @property
    def group(self) -> Group:
        """What came of it."""
        return Group(self.prompt, self.samples)


class Interrupted(Exception):
    """The generator was told to end its calls: drafts hold what there is, and can be gone on with later."""


class Rollouts:
    """Makes scored groups with a generator."""

    def __init__(
        self,
        recipe: Recipe,
        task: Task,
        codec: Codec,
        generator: Generator,
        verification: Verification | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
    ) -> None:
        self._recipe, self._task, self._codec, self._generator = recipe, task, codec, generator
        self._verification, self._timeouts = verification or Verification(), timeouts
        self._phrase = codec.encode(recipe.length.phrase) if recipe.length.mode == "interruption" else []
        self._is_interrupted = False

    def draft(self, prompt: Prompt, n: int, key: str, thinking_share: float = 1.0) -> Draft:
        """A group of `n` samples that have no token yet."""
        tokens = self.prompt_tokens(prompt)
        return Draft(prompt, [Sample(tokens) for _ in range(n)], key, thinking_share)

    async def groups(
        self, prompts: Sequence[Prompt], n: int, temperature: float, *, key: str = ""
    ) -> list[Group]:
        """`n` scored samples of each prompt, all at the same time."""
        drafts = [self.draft(prompt, n, f"{key}/{place}") for place, prompt in enumerate(prompts)]
        await self.generate(drafts, temperature)
        await self.score(drafts)
        return [draft.group for draft in drafts]

    async def generate(self, drafts: Sequence[Draft], temperature: float) -> None:
        """Go on until every sample is complete. Raises Interrupted, PartFailed or WaitTimeout."""
        while asked := [(sample, request) for draft in drafts for sample, request in self._open(draft)]:
            if self._is_interrupted:
                raise Interrupted
            completions = await self._ask([request for _, request in asked], temperature)
            for (sample, _), completion in zip(asked, completions, strict=True):
                sample.add(completion)
            if any(completion.interrupted for completion in completions):
                raise Interrupted

    async def score(self, drafts: Sequence[Draft]) -> None:
        """Have every sample judged. Raises RewardError where the verifiers' service is broken."""
        if self._is_interrupted:
            raise Interrupted
        work = [self._score(draft.prompt, sample) for draft in drafts for sample in draft.samples]
        await asyncio.gather(*work)

    async def interrupt(self, timeout: float) -> None:
        """End all `generate` now; until `go_on` none begins, and no `score`. Raises PartFailed or, after `timeout`
        seconds, WaitTimeout."""
        self._is_interrupted = True
        with blame("the generator"):
            await within(self._generator.interrupt(), what="the generator to end its calls", timeout=timeout)

    def go_on(self) -> None:
        """Drafts may be generated and scored again."""
        self._is_interrupted = False

    async def aclose(self) -> None:
        """End the verifiers' processes."""
        await self._verification.aclose()

    async def _ask(self, requests: list[Request], temperature: float) -> list[Completion]:
        with blame("the generator"):
            completions = await within(
                self._generator.generate(requests, temperature),
                what=f"the generator to complete {len(requests)} responses",
                timeout=self._timeouts.generation,
            )
            for request, made in zip(requests, completions, strict=True):
                if len(made.tokens) < request.max_tokens and not (made.finished or made.interrupted):
                    raise RuntimeError(
                        f"it ended a response after {len(made.tokens)} of {request.max_tokens} tokens"
                    )
        return completions

    def prompt_tokens(self, prompt: Prompt) -> list[int]:
        """What the generator gets. ValueError where it is too long or the vocabulary cannot spell it."""
        tokens = self._codec.encode_prompt(prompt.text)
        limit = self._recipe.rollout.max_prompt_tokens
        if len(tokens) > limit:
            raise ValueError(
                f"prompt {prompt.id} has {len(tokens)} tokens; rollout.max_prompt_tokens is {limit}"
            )
        return tokens

    def _open(self, draft: Draft) -> Iterator[tuple[Sample, Request]]:
        """The samples that are not complete, each with what to ask for next."""
        for index, sample in enumerate(draft.samples):
            first = self._first_limit(draft, index)
            is_first = not sample.interrupted and len(sample.response) < first
            if sample.finished or (not is_first and self._recipe.length.mode != "interruption"):
                continue
            end = first if is_first else self._second_limit(draft, sample)
            if len(sample.response) < end:
                seed = seed_of(self._recipe.seed, draft.key, index, "first" if is_first else "second")
                made = len(sample.response)
                begun = sample.versions[0] if made else None
                yield sample, Request(sample.tokens, end - made, seed, position=made, begun=begun)

    def _first_limit(self, draft: Draft, index: int) -> int:
        """Response tokens before the interruption (a random length, section 2), else all there is room for."""
        length = self._recipe.length
        if length.mode != "interruption":
            return self._room(draft)
        choices = length.interrupt_high - length.interrupt_low + 1
        drawn = length.interrupt_low + seed_of(self._recipe.seed, draft.key, index, "limit") % choices
        return max(1, round(draft.thinking_share * drawn))

    def _second_limit(self, draft: Draft, sample: Sample) -> int:
        """Response tokens after it. Ends the thinking by force, unless it has ended and only the answer goes on."""
        if not sample.interrupted and self._codec.end_of_thinking(sample.response) is None:
            sample.force(self._phrase)
        forced_end = len(sample.chosen) - sample.chosen[::-1].index(False) if sample.interrupted else 0
        return max(self._room(draft), forced_end + 1)

    def _room(self, draft: Draft) -> int:
        """Longest response, tokens."""
        rollout = self._recipe.rollout
        return max(1, round(draft.thinking_share * rollout.max_thinking_tokens)) + rollout.max_answer_tokens

    async def _score(self, prompt: Prompt, sample: Sample) -> None:
        """Reward (section 4 of the recipe): correct or not; the length penalty touches correct traces only."""
        reward, length = self._recipe.reward, self._recipe.length
        response = self._judged_text(sample)
        verdict = await self._verification.verify(self._task.verifier(prompt), prompt.answer, response)
        sample.correct, sample.failure, sample.reason = verdict.correct, verdict.failure, verdict.reason
        sample.reward = reward.correct if sample.correct else reward.incorrect
        if length.mode == "penalty" and sample.correct:
            left = (length.penalty_max_tokens - len(sample.response)) / length.penalty_cache_tokens
            sample.reward += min(0.0, max(-1.0, left - 1.0))

    def _judged_text(self, sample: Sample) -> str:
        """The response from its first `</think>` on: what comes before is mostly long, and is not judged. All of a
        thought that has not ended, after the `<think>` that its prompt may end with: it is no answer."""
        if (end := self._codec.end_of_thinking(sample.response)) is not None:
            return self._codec.decode(sample.response[end:])
        opened = BEGIN_THINK if self._codec.opens_thinking(sample.prompt) else ""
        return opened + self._codec.decode(sample.response)


def warn_of_failures(groups: Sequence[Group]) -> None:
    """Log the first of each kind of verifier failure, with how many there were."""
    for line in failure_lines(sample.failure for group in groups for sample in group.samples):
        log.warning("%s", line)


def seed_of(*parts: int | str) -> int:
    """63 bits from the parts, the same in every process, machine and attempt of a run: by BLAKE2, for Python's own
    `hash` of text differs from process to process."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
