"""Sums with the column sums as thinking trace."""

import random

from training.tasks import Prompt, Task
from training.tasks.arithmetic import END_THINK, Arithmetic, draw, make_prompt


class Sums:
    """Sums of two numbers of `size` digits. Implements `training.teaching.base.Family`."""

    def task(self) -> Task:
        """With its default options."""
        return Arithmetic()

    def problem(self, size: int, rng: random.Random) -> Prompt:
        """Of numbers of `size` digits."""
        return make_prompt(*draw(rng, size))

    def worked(self, prompt: Prompt, mistakes: float, rng: random.Random) -> str:
        """A wrong column sum is any from 0 to 19; its carry and its digit of the answer are wrong with it."""
        a, b = map(int, prompt.id.split("+"))
        trace, digits, carry = "", "", 0
        for _ in str(max(a, b)):
            total = a % 10 + b % 10 + carry
            if rng.random() < mistakes:
                total = rng.randrange(20)
            trace += f"{a % 10}{b % 10}{total:02d}"
            digits = f"{total % 10}{digits}"
            carry, a, b = total // 10, a // 10, b // 10
        return f"{trace}{END_THINK}{int(f'{carry}{digits}')}"

    def guess(self, prompt: Prompt, rng: random.Random) -> str:
        """As many random digits as the sum has."""
        return END_THINK + "".join(rng.choice("0123456789") for _ in prompt.answer)
