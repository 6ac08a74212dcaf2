"""Reach a target from given numbers with + - * /, each number used at most once. Made offline from a seed.

The response ends with `<answer>(1 + 2) * 3</answer>`. Many expressions can be right, so the verifier evaluates the one
it is given. Difficulty is how many numbers there are.
"""

import ast
import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from random import Random

from pydantic import BaseModel, ConfigDict, Field, model_validator

from training.tasks.base import Prompt, TaskError
from training.verifiers.base import Isolation, Verdict

MAX_EXPRESSION = 200  # characters; longer ones are wrong
_ANSWER = re.compile(r"<answer>([^<]*)</answer>")
_ALPHABET = re.compile(r"[0-9+\-*/() ]*")
_SPLIT_SEED = 20_251_121  # fixes which problems are held out, for every run
_TRIES = 5000  # draws without a new problem, before giving up
_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Countdown(BaseModel):
    """Problems of `min_numbers` to `max_numbers` numbers, equally many of each. Implements `base.Task`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    min_numbers: int = Field(default=3, ge=2, le=8, description="Fewest numbers given.")
    max_numbers: int = Field(default=4, ge=2, le=8, description="Most numbers given.")
    max_number: int = Field(default=99, ge=2, le=999, description="Largest number given; the smallest is 1.")
    max_target: int = Field(default=100, ge=2, le=9999, description="Largest target; the smallest is 1.")
    train_prompts: int = Field(default=2048, ge=1, le=100_000, description="Size of the training set.")
    held_out_pool: int = Field(default=1024, ge=1, le=10_000, description="Size of the held-out set.")

    @model_validator(mode="after")
    def _range_is_ordered(self) -> "Countdown":
        if self.min_numbers > self.max_numbers:
            raise ValueError("min_numbers is above max_numbers")
        return self

    def check(self) -> None:
        """Make the problems. TaskError where the options allow too few."""
        _ = self._split

    def training_prompts(self, seed: int) -> Sequence[Prompt]:
        """All training prompts, shuffled by `seed`."""
        prompts = list(self._split[0])
        Random(seed).shuffle(prompts)  # nosec B311  # drawn anew from a seed, kept from nobody
        return prompts

    def held_out_prompts(self, count: int) -> Sequence[Prompt]:
        """The first `count` held-out prompts; ValueError where there are fewer."""
        if count > self.held_out_pool:
            raise ValueError(f"the task holds out {self.held_out_pool} prompts, not {count}")
        return self._split[1][:count]

    def verifier(self, prompt: Prompt) -> "ExpressionVerifier":
        """The same for every problem."""
        return ExpressionVerifier()

    @cached_property
    def _split(self) -> tuple[list[Prompt], list[Prompt]]:
        """(training, held out). The held-out problems are drawn first: the same whatever `train_prompts` is."""
        rng = Random(  # nosec B311  # drawn anew from a seed, kept from nobody
            f"{_SPLIT_SEED}/{self.min_numbers}/{self.max_numbers}/{self.max_number}/{self.max_target}"
        )
        wanted = self.held_out_pool + self.train_prompts
        sizes = range(self.min_numbers, self.max_numbers + 1)
        problems: dict[tuple[tuple[int, ...], int], None] = {}
        failures = 0
        while len(problems) < wanted and failures < _TRIES:
            numbers = [rng.randint(1, self.max_number) for _ in range(sizes[len(problems) % len(sizes)])]
            target = reachable_target(numbers, rng)
            found = len(problems)
            if target.denominator == 1 and 1 <= target <= self.max_target and target not in numbers:
                problems[tuple(sorted(numbers)), int(target)] = None
            failures = 0 if len(problems) > found else failures + 1
        if len(problems) < wanted:
            raise TaskError(f"found only {len(problems)} problems with these options, not {wanted}")
        prompts = [make_prompt(numbers, target) for numbers, target in problems]
        return prompts[self.held_out_pool :], prompts[: self.held_out_pool]


@dataclass(frozen=True)
class ExpressionVerifier:
    """Wants the last <answer> to hold an expression of numbers, + - * / and parentheses that hits the target."""

    isolation: Isolation = "inline"
    timeout_seconds: float = 1.0

    def verify(self, answer: str, response: str) -> Verdict:
        """See training.verifiers.base.Verifier; `answer` is JSON: {"numbers": [...], "target": ...}."""
        problem = json.loads(answer)
        expressions = _ANSWER.findall(response)
        value = evaluate(expressions[-1], problem["numbers"]) if expressions else None
        return Verdict(value == problem["target"])


def evaluate(expression: str, numbers: Sequence[int]) -> Fraction | None:
    """The exact value, or None for anything but + - * / of these numbers, each used at most once."""
    expression = expression.strip()
    if len(expression) > MAX_EXPRESSION or not _ALPHABET.fullmatch(expression):
        return None
    try:
        tree = ast.parse(expression, mode="eval").body
        used: Counter[int] = Counter()
        value = _value(tree, used)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return value if used <= Counter(numbers) else None


def _value(node: ast.expr, used: Counter[int]) -> Fraction:
    """Value of a tree of whitelisted nodes; the numbers in it are counted. ValueError for any other node."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        used[node.value] += 1
        return Fraction(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, used), _value(node.right, used))
    raise ValueError("not an expression of numbers, + - * / and parentheses")


def reachable_target(numbers: Sequence[int], rng: Random) -> Fraction:
    """The value of a random expression that uses all the numbers."""
    values = [Fraction(number) for number in numbers]
    operations = list(_OPERATORS.values())
    while len(values) > 1:
        left, right = (values.pop(rng.randrange(len(values))) for _ in range(2))
        operation = rng.choice(operations)
        values.append(left if operation is operator.truediv and not right else operation(left, right))
    return values[0]


def make_prompt(numbers: Sequence[int], target: int) -> Prompt:
    """The problem of these numbers and target."""
    listed = ", ".join(map(str, numbers))
    return Prompt(
        id=f"{'_'.join(map(str, numbers))}={target}",
        text=f"Using the numbers {listed}, each at most once, and the operations + - * /, write an expression that "
        f"equals {target}. Think, then give the expression like this: <answer>(1 + 2) * 3</answer>.\n",
        answer=json.dumps({"numbers": list(numbers), "target": target}),
        difficulty=float(len(numbers)),
    )
