"""What the tiny base models are taught: worked problems of a family of tasks, with mistakes. No torch needed.

Sums have their column sums as thinking trace; countdown in its compact form has a search; the data set basic_arithmetic
of reasoning-gym is worked off one operation at a time.
"""

import json
import random
import re
from typing import Any, Protocol

from training.tasks import Prompt, Task
from training.tasks.arithmetic import END_THINK, THINK, Arithmetic, draw, make_prompt
from training.tasks.countdown import Countdown, chain_target, chain_values, compact_prompt, draw_chain
from training.tasks.reasoning_gym import VIRTUAL_SIZE, ReasoningGym, entry_of

COUNTDOWN: dict[str, Any] = {
    "form": "compact", "operations": "+-", "min_numbers": 3, "max_numbers": 5, "max_number": 15, "max_target": 60,
}  # fmt: skip
GIVING_UP = 0.4  # chance after a chain that misses


EXPRESSIONS: dict[str, Any] = {
    "dataset": "basic_arithmetic",
    "config": {
        "operators": ["+", "-"],
        "min_terms": 2,
        "max_terms": 7,
        "max_digits": 1,
        "allow_parentheses": False,
        "whitespace": "no_space",
    },
    "template": f"{{problem}}{THINK}",
    "train_prompts": 4096,
}
_OPERATION = re.compile(r"(-?\d+)([+-]\d+)")


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


class Sums:
    """Sums of two numbers of `size` digits. Implements `Family`."""

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


class Search:
    """Problems of `size` numbers. Implements `Family`."""

    def task(self) -> Task:
        """With the options of the tiny model."""
        return Countdown.model_validate(COUNTDOWN)

    def problem(self, size: int, rng: random.Random) -> Prompt:
        """With the options of the tiny model."""
        while True:
            numbers = sorted(rng.randint(1, COUNTDOWN["max_number"]) for _ in range(size))
            target = int(chain_target(numbers, rng, COUNTDOWN["operations"]))
            if 1 <= target <= COUNTDOWN["max_target"] and target not in numbers:
                return compact_prompt(numbers, target)

    def worked(self, prompt: Prompt, mistakes: float, rng: random.Random) -> str:
        """Random chains, each with the value after every step, until one hits or patience ends: `9-7=2+5=7,5+9=14-7=7`.
        The answer is the last chain. A wrong value is off by at most nine."""
        numbers, target = _read(prompt)
        trace = []
        while True:
            order, steps = draw_chain(numbers, rng, COUNTDOWN["operations"])
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
        return END_THINK + _chain(*draw_chain(_read(prompt)[0], rng, COUNTDOWN["operations"]))


def _read(prompt: Prompt) -> tuple[list[int], int]:
    numbers, _, target = prompt.id.partition("=")
    return [int(number) for number in numbers.split("_")], int(target)


def _chain(order: list[int], steps: list[str]) -> str:
    return str(order[0]) + "".join(f"{step}{number}" for step, number in zip(steps, order[1:], strict=True))


class Expressions:
    """Sums and differences of `size` numbers up to ten. Implements `Family`."""

    def task(self) -> Task:
        """With the options of the tiny model."""
        return ReasoningGym.model_validate(EXPRESSIONS)

    def problem(self, size: int, rng: random.Random) -> Prompt:
        """Of `size` terms."""
        config = EXPRESSIONS["config"] | {"min_terms": size, "max_terms": size}
        entry = entry_of(EXPRESSIONS["dataset"], json.dumps(config), rng.randrange(VIRTUAL_SIZE))
        return Prompt(
            id=entry["metadata"]["expression"], text=f"{entry['question']}{THINK}", answer=entry["answer"]
        )

    def worked(self, prompt: Prompt, mistakes: float, rng: random.Random) -> str:
        """The expression after each operation: `4-6+9` is worked off as `-2+9=7`. A wrong value is off by at most
        nine."""
        rest, trace = prompt.id.replace(" ", ""), []
        while operation := _OPERATION.match(rest):
            wrong = rng.randint(-9, 9) if rng.random() < mistakes else 0
            value = int(operation[1]) + int(operation[2]) + wrong
            rest = f"{value}{rest[operation.end() :]}"
            trace.append(rest)
        return f"{'='.join(trace)}{END_THINK}{rest}"

    def guess(self, prompt: Prompt, rng: random.Random) -> str:
        """A random number."""
        return f"{END_THINK}{rng.randint(-20, 20)}"


FAMILIES: dict[str, Family] = {"arithmetic": Sums(), "countdown": Search(), "expressions": Expressions()}
