"""Countdown in its compact form, with a search as thinking trace."""

import random
from typing import Any

from training.tasks import Prompt, Task
from training.tasks.arithmetic import END_THINK
from training.tasks.countdown import Countdown, chain_target, chain_values, compact_prompt, draw_chain

OPTIONS: dict[str, Any] = {
    "form": "compact", "operations": "+-", "min_numbers": 3, "max_numbers": 5, "max_number": 15, "max_target": 60,
}  # fmt: skip
GIVING_UP = 0.4  # chance after a chain that misses


class Search:
    """Problems of `size` numbers. Implements `training.teaching.base.Family`."""

    def task(self) -> Task:
        """With the options of the tiny model."""
        return Countdown.model_validate(OPTIONS)

    def problem(self, size: int, rng: random.Random) -> Prompt:
        """With the options of the tiny model."""
        while True:
            numbers = sorted(rng.randint(1, OPTIONS["max_number"]) for _ in range(size))
            target = int(chain_target(numbers, rng, OPTIONS["operations"]))
            if 1 <= target <= OPTIONS["max_target"] and target not in numbers:
                return compact_prompt(numbers, target)

    def worked(self, prompt: Prompt, mistakes: float, rng: random.Random) -> str:
        """Random chains, each with the value after every step, until one hits or patience ends: `9-7=2+5=7,5+9=14-7=7`.
        The answer is the last chain. A wrong value is off by at most nine."""
        numbers, target = _read(prompt)
        trace = []
        while True:
            order, steps = draw_chain(numbers, rng, OPTIONS["operations"])
            value, shown = order[0], str(order[0])
            for step, number in zip(steps, order[1:], strict=True):
                wrong = rng.randint(-9, 9) if rng.random() < mistakes else 0
                value = max(0, chain_values([value, number], [step])[-1] + wrong)
                shown += f"{step}{number}={value}"
            trace.append(shown)
            if value == target or rng.random() < GIVING_UP:
                return f"{','.join(trace)}{END_THINK}{_chain(order, steps)}"

    def guess(self, prompt: Prompt, rng: random.Random) -> str:
        """A random chain."""
        return END_THINK + _chain(*draw_chain(_read(prompt)[0], rng, OPTIONS["operations"]))


def _read(prompt: Prompt) -> tuple[list[int], int]:
    numbers, _, target = prompt.id.partition("=")
    return [int(number) for number in numbers.split("_")], int(target)


def _chain(order: list[int], steps: list[str]) -> str:
    return str(order[0]) + "".join(f"{step}{number}" for step, number in zip(steps, order[1:], strict=True))
