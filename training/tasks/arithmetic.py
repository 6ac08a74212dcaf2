"""Addition with a thinking trace, made offline from a seed, answers verified by program.

A prompt is `37+58=<think>`; a response writes the columns from the units up, each as its two digits and their sum with
the carry, then the answer: `78153509</think>95`. Difficulty is the number of digits.
"""

import math
import random
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pydantic import Field, model_validator

from training.tasks.base import Prompt, SplitTask
from training.verifiers.base import Inline, Verdict

THINK, END_THINK = "<think>", "</think>"
KEPT_PROMPTS = 10_000  # of as many a process keeps what it drew
_SPLIT_SEED = 20_251_013  # fixes which problems are held out, for every run


class Arithmetic(SplitTask):
    """Sums of two numbers of `min_digits` to `max_digits` digits. Implements `training.tasks.base.Task`."""

    max_digits: int = Field(default=8, ge=1, le=12, description="Digits of the largest number.")
    min_digits: int = Field(default=2, ge=1, le=12, description="Digits of the smallest number.")
    train_prompts: int = Field(default=8192, ge=1, le=1_000_000, description="Size of the training set.")
    held_out_pool: int = Field(default=1024, ge=1, le=100_000, description="Size of the held-out set.")

    @model_validator(mode="after")
    def _sizes_are_possible(self) -> "Arithmetic":
        if self.min_digits > self.max_digits:
            raise ValueError("min_digits is above max_digits")
        available = sum(map(num_problems, self._digits))
        if self.held_out_pool + self.train_prompts > available:
            raise ValueError(
                f"there are only {available} problems of {self.min_digits} to {self.max_digits} digits"
            )
        return self

    def verifier(self, prompt: Prompt) -> "SumVerifier":
        """The same for every problem."""
        return SumVerifier()

    @property
    def _digits(self) -> range:
        return range(self.min_digits, self.max_digits + 1)

    @cached_property
    def _split(self) -> tuple[list[Prompt], list[Prompt]]:
        """(training, held out). The held-out problems are drawn first: the same whatever `train_prompts` is, as long as
        there are plenty."""
        count = self.held_out_pool + self.train_prompts
        draw_all = _drawn if count <= KEPT_PROMPTS else _drawn.__wrapped__
        prompts = draw_all(self.held_out_pool, self.train_prompts, self._digits)
        return list(prompts[self.held_out_pool :]), list(prompts[: self.held_out_pool])


def num_problems(digits: int) -> int:
    """How many problems of so many digits there are."""
    return (9 * 10 ** (digits - 1)) ** 2


@lru_cache(maxsize=4)
def _drawn(held_out: int, training: int, digits: range) -> tuple[Prompt, ...]:
    """Distinct problems, held-out ones first, as many of each number of digits as there are. A launch form draws the
    same ones at each key."""
    rng = random.Random(f"{_SPLIT_SEED}/{digits}")  # nosec B311  # drawn anew from a seed, kept from nobody
    share = held_out / (held_out + training)  # of the few short problems no more than that is held out
    room = {size: math.ceil(share * num_problems(size)) for size in digits}
    problems: dict[tuple[int, int], None] = {}
    while len(problems) < held_out + training:
        size, is_held_out = rng.choice(digits), len(problems) < held_out
        problem = draw(rng, size)
        if problem in problems or (is_held_out and not room[size]):
            continue
        problems[problem] = None
        room[size] -= 1
    return tuple(make_prompt(a, b) for a, b in problems)


@dataclass(frozen=True)
class SumVerifier(Inline):
    """Wants exactly one `</think>`, and after it exactly the sum, without leading zeros or other text."""

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
