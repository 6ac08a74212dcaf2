"""Addition with a thinking trace, made offline from a seed, answers verified by program.

A prompt is `37+58=<think>`; a response writes the column sums from the units up, then the answer:
`15,9</think>95`. Difficulty is the number of digits and the share of the longest problems: the base model has never
seen three digits, so by default a fifth of the problems is out of its reach and the pass rate tops out below one.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pydantic import BaseModel, ConfigDict, Field, model_validator

from training.tasks.base import Prompt
from training.verifiers.base import Isolation, Verdict

THINK, END_THINK = "<think>", "</think>"
KEPT_PROMPTS = 10_000  # of as many a process keeps what it drew
_SPLIT_SEED = 20_251_013  # fixes which problems are held out, for every run


class Arithmetic(BaseModel):
    """Sums of two numbers of `min_digits` to `max_digits` digits. Implements `training.tasks.base.Task`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_digits: int = Field(default=3, ge=1, le=6, description="Digits of the largest number.")
    min_digits: int = Field(default=2, ge=1, le=6, description="Digits of the smallest number.")
    long_share: float = Field(
        default=0.2, ge=0, le=1, description="Share of the problems that have max_digits digits."
    )
    train_prompts: int = Field(default=2048, ge=1, le=1_000_000, description="Size of the training set.")
    held_out_pool: int = Field(default=1024, ge=1, le=100_000, description="Size of the held-out set.")

    @model_validator(mode="after")
    def _sizes_are_possible(self) -> "Arithmetic":
        if self.min_digits > self.max_digits:
            raise ValueError("min_digits is above max_digits")
        for wanted, digits in self._wanted():
            available = sum((9 * 10 ** (d - 1)) ** 2 for d in digits)
            if wanted > available:
                raise ValueError(f"there are only {available} problems of {digits[0]} to {digits[-1]} digits")
        return self

    def check(self) -> None:
        """Nothing to read: the options are checked on construction."""

    def training_prompts(self, seed: int) -> Sequence[Prompt]:
        """All training prompts, shuffled by `seed`."""
        prompts = list(self._split[0])
        random.Random(seed).shuffle(prompts)  # nosec B311  # drawn anew from a seed, kept from nobody
        return prompts

    def held_out_prompts(self, count: int) -> Sequence[Prompt]:
        """The first `count` held-out prompts; ValueError where there are fewer."""
        if count > self.held_out_pool:
            raise ValueError(f"the task holds out {self.held_out_pool} prompts, not {count}")
        return self._split[1][:count]

    def verifier(self, prompt: Prompt) -> "SumVerifier":
        """The same for every problem."""
        return SumVerifier()

    def _wanted(self) -> list[tuple[int, range]]:
        """How many problems of which digits: the longest, then the others."""
        count = self.held_out_pool + self.train_prompts
        shorter = range(self.min_digits, self.max_digits)
        num_long = round(self.long_share * count) if shorter else count
        wanted = [(num_long, range(self.max_digits, self.max_digits + 1)), (count - num_long, shorter)]
        return [(number, digits) for number, digits in wanted if number]

    @cached_property
    def _split(self) -> tuple[list[Prompt], list[Prompt]]:
        """(training, held out): distinct problems in the asked proportion, shuffled, then cut in two."""
        seed = f"{_SPLIT_SEED}/{self.min_digits}/{self.max_digits}/{self.long_share}"
        is_small = self.held_out_pool + self.train_prompts <= KEPT_PROMPTS
        draw_all = _drawn if is_small else _drawn.__wrapped__
        prompts = draw_all(seed, tuple(self._wanted()))
        return list(prompts[self.held_out_pool :]), list(prompts[: self.held_out_pool])


@lru_cache(maxsize=4)
def _drawn(seed: str, wanted: tuple[tuple[int, range], ...]) -> tuple[Prompt, ...]:
    """So many distinct problems of so many digits, shuffled. A launch form draws the same ones at each key."""
    rng = random.Random(seed)  # nosec B311  # drawn anew from a seed, kept from nobody
    problems: dict[tuple[int, int], None] = {}
    for count, digits in wanted:
        until = len(problems) + count
        while len(problems) < until:
            problems[draw(rng, rng.choice(digits))] = None
    prompts = [make_prompt(a, b) for a, b in problems]
    rng.shuffle(prompts)
    return tuple(prompts)


@dataclass(frozen=True)
class SumVerifier:
    """Wants exactly one `</think>`, and after it exactly the sum, without leading zeros or other text."""

    isolation: Isolation = "inline"
    timeout_seconds: float = 1.0

    def verify(self, answer: str, response: str) -> Verdict:
        """See training.verifiers.base.Verifier."""
        _, *rest = response.split(END_THINK)
        return Verdict(len(rest) == 1 and rest[0].strip() == answer)


def draw(rng: random.Random, digits: int) -> tuple[int, int]:
    """Two random numbers of that many digits."""
    low, high = 10 ** (digits - 1), 10**digits - 1
    return rng.randint(low, high), rng.randint(low, high)


def make_prompt(a: int, b: int) -> Prompt:
    """The problem a + b."""
    digits = float(max(len(str(a)), len(str(b))))
    return Prompt(id=f"{a}+{b}", text=f"{a}+{b}={THINK}", answer=str(a + b), difficulty=digits)


def column_sums(a: int, b: int) -> list[int]:
    """Sums of the columns from the units up, each with the carry of the one before: 37 + 58 -> [15, 9]."""
    sums, carry = [], 0
    while a or b:
        sums.append(a % 10 + b % 10 + carry)
        carry, a, b = sums[-1] // 10, a // 10, b // 10
    return sums


def solution(a: int, b: int) -> str:
    """The full correct response to `make_prompt(a, b)`."""
    return f"{','.join(map(str, column_sums(a, b)))}{END_THINK}{a + b}"
