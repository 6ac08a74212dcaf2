"""What a family of tasks teaches."""

import random
from typing import Protocol

from training.tasks import Prompt, Task


class Family(Protocol):
    """Worked problems of one task, of a size that the task's difficulty grows with."""

    def task(self) -> Task:
        """Whose held-out problems are never taught."""

    def problem(self, size: int, rng: random.Random) -> Prompt:
        """A random problem of that size."""

    def worked(self, prompt: Prompt, mistakes: float, rng: random.Random) -> str:
        """A response that thinks: thinking trace, `</think>`, answer. Each step is wrong with chance `mistakes`, and
        what follows goes on from it."""

    def guess(self, prompt: Prompt, rng: random.Random) -> str:
        """A response without thinking, of the right form."""
