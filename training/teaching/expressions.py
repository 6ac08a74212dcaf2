"""The data set basic_arithmetic of reasoning-gym, worked off one operation at a time."""

import json
import random
import re
from typing import Any

from training.tasks import Prompt, Task
from training.tasks.arithmetic import END_THINK, THINK
from training.tasks.reasoning_gym import VIRTUAL_SIZE, ReasoningGym, entry_of

OPTIONS: dict[str, Any] = {
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
_INNERMOST = re.compile(r"\(([^()]*)\)")
_OPERATION = re.compile(r"(-?\d+)([+-]\d+)")
_SINGLE = re.compile(r"\((-?\d+)\)")
_NUMBER = re.compile(r"-?\d+")


class Expressions:
    """Sums and differences of `size` digits, with parentheses. Implements `training.teaching.base.Family`."""

    def task(self) -> Task:
        """With the options of the tiny model."""
        return ReasoningGym.model_validate(OPTIONS)

    def problem(self, size: int, rng: random.Random) -> Prompt:
        """Of `size` terms."""
        config = OPTIONS["config"] | {"min_terms": size, "max_terms": size}
        entry = entry_of(OPTIONS["dataset"], json.dumps(config), rng.randrange(VIRTUAL_SIZE))
        return Prompt(
            id=entry["metadata"]["expression"], text=f"{entry['question']}{THINK}", answer=entry["answer"]
        )

    def worked(self, prompt: Prompt, mistakes: float, rng: random.Random) -> str:
        """The expression after each operation: `4-(1-6)+9` is worked off as `4+5+9=9+9=18`. A wrong value is off by at
        most nine."""
        trace = [_simplified(prompt.id.replace(" ", ""))]
        while not _NUMBER.fullmatch(trace[-1]):
            wrong = rng.randint(-9, 9) if rng.random() < mistakes else 0
            trace.append(_worked_off(trace[-1], wrong))
        return f"{'='.join(trace[1:] or trace)}{END_THINK}{int(trace[-1])}"

    def guess(self, prompt: Prompt, rng: random.Random) -> str:
        """A random number."""
        return f"{END_THINK}{rng.randint(-20, 20)}"


def _worked_off(expression: str, wrong: int) -> str:
    """With the first operation of the first innermost parentheses done, and `wrong` added to its value."""
    inner = _INNERMOST.search(expression)
    begin, end = inner.span(1) if inner else (0, len(expression))
    operation = _OPERATION.match(expression, begin, end)
    assert operation is not None  # there are two terms, or _simplified would have left a number
    value = int(operation[1]) + int(operation[2]) + wrong
    return _simplified(f"{expression[:begin]}{value}{expression[operation.end() :]}")


def _simplified(expression: str) -> str:
    """Without parentheses around single numbers, and with one sign between two terms."""
    while True:
        before = expression
        expression = _SINGLE.sub(r"\1", expression)
        for signs, sign in (("--", "+"), ("+-", "-"), ("-+", "-"), ("++", "+"), ("(+", "(")):
            expression = expression.replace(signs, sign)
        expression = expression.removeprefix("+")
        if expression == before:
            return expression
