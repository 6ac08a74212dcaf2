"""What a task is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class TaskError(ValueError):
    """An unknown task or a wrong option."""


@dataclass(frozen=True)
class Prompt:
    """One problem. `id` is stable across runs; `text` is what the model continues; `answer` is never shown."""

    id: str
    text: str
    answer: str


class Task(Protocol):
    """Prompts plus verifier. The held-out prompts come from the same distribution and share none with training."""

    def training_prompts(self, seed: int) -> Sequence[Prompt]:
        """The training prompts in an order that depends on `seed` alone."""

    def held_out_prompts(self, count: int) -> Sequence[Prompt]:
        """The first `count` held-out prompts: the same for every run, recipe and seed."""

    def is_correct(self, prompt: Prompt, response: str) -> bool:
        """Whether the response's final answer is right; its thinking is not judged."""
