"""Reach a target from given numbers with + - * /, each number used at most once. Made offline from a seed.

In words, the response ends with `<answer>(1 + 2) * 3</answer>`. In the compact form, for models without words, a
prompt is `3,7,5=26<think>`, and after `</think>` comes a chain, which is worked off from left to right: `3*7+5`. Many
expressions can be right, so the verifier evaluates the one it is given. Difficulty is how many numbers there are.
"""

import ast
import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from random import Random
from typing import Any, Literal

from pydantic import Field, model_validator

from training.tasks.arithmetic import END_THINK, THINK
from training.tasks.base import Prompt, SplitTask, TaskError
from training.verifiers.base import Inline, Verdict
from training.verifiers.text import final_answer

MAX_EXPRESSION = 200  # characters; longer ones are wrong
_ANSWER = re.compile(r"<answer>([^<]*)</answer>")
_ALPHABET = re.compile(r"[0-9+\-*/() ]*")
_SPLIT_SEED = 20_251_121  # fixes which problems are held out, for every run
_CHAIN = re.compile(r"\d{1,4}([+\-*]\d{1,4}){0,7}")
_CHAIN_STEP = re.compile(r"([+\-*])(\d+)")
MAX_STEP = 99  # the largest value on the way along a chain; the smallest is 0
_TRIES = 5000  # draws without a new problem, before giving up
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


class Countdown(SplitTask):
    """Problems of `min_numbers` to `max_numbers` numbers, equally many of each. Implements `base.Task`."""

    form: Literal["words", "compact"] = Field(
        default="words",
        description="The prompt in words, or `3,7,5=26<think>` for chains without parentheses and /.",
    )
    operations: str = Field(
        default="+-*/",
        pattern=r"^[-+*/]{1,4}$",
        description="Those that targets are made with; chains have no /.",
    )
    min_numbers: int = Field(default=3, ge=2, le=8, description="Fewest numbers given.")
    max_numbers: int = Field(default=4, ge=2, le=8, description="Most numbers given.")
    max_number: int = Field(default=99, ge=2, le=999, description="Largest number given; the smallest is 1.")
    max_target: int = Field(default=100, ge=2, le=9999, description="Largest target; the smallest is 1.")
    train_prompts: int = Field(default=2048, ge=1, le=100_000, description="Size of the training set.")
    held_out_pool: int = Field(default=1024, ge=1, le=10_000, description="Size of the held-out set.")

    @model_validator(mode="after")
    def _options_fit(self) -> "Countdown":
        if self.min_numbers > self.max_numbers:
            raise ValueError("min_numbers is above max_numbers")
        if self.form == "compact" and self.max_number > MAX_STEP:
            raise ValueError(f"form compact needs max_number of at most {MAX_STEP}")
        return self

    def verifier(self, prompt: Prompt) -> "ExpressionVerifier | ChainVerifier":
        """The same for every problem."""
        return ChainVerifier() if self.form == "compact" else ExpressionVerifier()

    @cached_property
    def _split(self) -> tuple[list[Prompt], list[Prompt]]:
        """(training, held out). The held-out problems are drawn first: the same whatever `train_prompts` is."""
        rng = Random(  # nosec B311  # drawn anew from a seed, kept from nobody
            f"{_SPLIT_SEED}/{self.min_numbers}/{self.max_numbers}/{self.max_number}/{self.max_target}"
        )
        is_compact = self.form == "compact"
        draw_target = chain_target if is_compact else reachable_target
        make = compact_prompt if is_compact else make_prompt
        wanted = self.held_out_pool + self.train_prompts
        sizes = range(self.min_numbers, self.max_numbers + 1)
        problems: dict[tuple[tuple[int, ...], int], None] = {}
        failures = 0
        while len(problems) < wanted and failures < _TRIES:
            numbers = [rng.randint(1, self.max_number) for _ in range(sizes[len(problems) % len(sizes)])]
            target = draw_target(numbers, rng, self.operations)
            found = len(problems)
            if target.denominator == 1 and 1 <= target <= self.max_target and target not in numbers:
                problems[tuple(sorted(numbers)), int(target)] = None
            failures = 0 if len(problems) > found else failures + 1
        if len(problems) < wanted:
            raise TaskError(f"found only {len(problems)} problems with these options, not {wanted}")
        prompts = [make(numbers, target) for numbers, target in problems]
        return prompts[self.held_out_pool :], prompts[: self.held_out_pool]


@dataclass(frozen=True)
class ExpressionVerifier(Inline):
    """Wants the last <answer> after the thinking: an expression of numbers, + - * / and parentheses that hits the
    target."""

    def verify(self, answer: str, response: str) -> Verdict:
        """See training.verifiers.base.Verifier; `answer` is JSON: {"numbers": [...], "target": ...}."""
        problem = json.loads(answer)
        expressions = _ANSWER.findall(final_answer(response))
        value = evaluate(expressions[-1], problem["numbers"]) if expressions else None
        return Verdict(value == problem["target"])


@dataclass(frozen=True)
class ChainVerifier(Inline):
    """Wants exactly one `</think>`, and after it exactly a chain of the numbers that hits the target."""

    def verify(self, answer: str, response: str) -> Verdict:
        """See training.verifiers.base.Verifier; `answer` is as ExpressionVerifier's."""
        problem = json.loads(answer)
        _, *rest = response.split(END_THINK)
        if len(rest) != 1 or not _CHAIN.fullmatch(rest[0].strip()):
            return Verdict(False)
        numbers, steps = parse_chain(rest[0].strip())
        hits = chain_values(numbers, steps)[-1] == problem["target"]
        return Verdict(hits and Counter(numbers) <= Counter(problem["numbers"]))


def parse_chain(chain: str) -> tuple[list[int], list[str]]:
    """`3*7+5` -> ([3, 7, 5], ["*", "+"])."""
    steps = _CHAIN_STEP.findall(chain)
    first = re.match(r"\d+", chain)
    return [int(first.group() if first else 0), *(int(number) for _, number in steps)], [s for s, _ in steps]


def chain_values(numbers: Sequence[int], steps: Sequence[str]) -> list[int]:
    """The value after each number, worked off from left to right: ([3, 7, 5], ["*", "+"]) -> [3, 21, 26]."""
    pairs = zip(steps, numbers[1:], strict=True)
    return list(
        accumulate(pairs, lambda value, pair: _OPERATORS[pair[0]](value, pair[1]), initial=numbers[0])
    )


def draw_chain(numbers: Sequence[int], rng: Random, operations: str) -> tuple[list[int], list[str]]:
    """All the numbers in a random order, with random steps between them whose values stay from 0 to MAX_STEP."""
    signs = operations.replace("/", "")
    while True:
        order, steps = rng.sample(numbers, len(numbers)), rng.choices(signs, k=len(numbers) - 1)
        if all(0 <= value <= MAX_STEP for value in chain_values(order, steps)):
            return order, steps


def chain_target(numbers: Sequence[int], rng: Random, operations: str) -> Fraction:
    """The value of a random chain of all the numbers."""
    return Fraction(chain_values(*draw_chain(numbers, rng, operations))[-1])


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
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return _OPERATORS[_SIGNS[type(node.op)]](_value(node.left, used), _value(node.right, used))
    raise ValueError("not an expression of numbers, + - * / and parentheses")


def reachable_target(numbers: Sequence[int], rng: Random, operations: str = "+-*/") -> Fraction:
    """The value of a random expression that uses all the numbers."""
    values = [Fraction(number) for number in numbers]
    allowed = [_OPERATORS[sign] for sign in operations]
    while len(values) > 1:
        left, right = (values.pop(rng.randrange(len(values))) for _ in range(2))
        operation = rng.choice(allowed)
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


def compact_prompt(numbers: Sequence[int], target: int) -> Prompt:
    """The problem of these numbers and target for models without words."""
    return replace(make_prompt(numbers, target), text=f"{','.join(map(str, numbers))}={target}{THINK}")
