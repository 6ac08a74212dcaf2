import itertools
import json
import pickle
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.tasks import TaskError, make_task
from training.tasks.countdown import (
    ChainVerifier,
    ExpressionVerifier,
    chain_values,
    compact_prompt,
    draw_chain,
    evaluate,
    make_prompt,
    reachable_target,
)

PROMPT = make_prompt([3, 7, 50], 29)
expressions = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=6,
)


def is_correct(response: str) -> bool:
    return ExpressionVerifier().verify(PROMPT.answer, response).correct


@pytest.mark.parametrize(
    ("response", "correct"),
    [
        ("<answer>50 - 3 * 7</answer>", True),
        ("<think>perhaps <answer>1</answer></think> <answer> (50) - (7*3) </answer> done", True),
        ("<answer>50 - 7 - 7 - 7</answer>", False),  # 7 is there once
        ("<answer>29</answer>", False),
        ("<answer>50 - 21</answer>", False),
        ("<answer>50 - 3 * 7</answer><answer>3</answer>", False),
        ("<think><answer>50 - 3 * 7</answer> or perhaps", False),  # a thought that has not ended
        ("<answer></answer>", False),
        ("50 - 3 * 7", False),
        ("", False),
    ],
)
def test_verifier(response: str, correct: bool) -> None:
    assert is_correct(response) is correct


@pytest.mark.parametrize(
    "expression",
    [
        "50 - 3 ** 7",
        "50 // 3",
        "-50",
        "+50",
        "0x32",
        "5_0",
        "50.0",
        "50 if 3 else 7",
        "__import__('os')",
        "f(50)",
        "50, 3",
        "50 < 3",
        "050",
        "(50",
        "50 3",
        "3 / (7 - 7)",
        "(" * 90 + "50" + ")" * 90,
        "50" + " " * 300 + "- 3",
        "9" * 150,
        "1" + "*9" * 99,
    ],
)
def test_everything_else_is_refused(expression: str) -> None:
    value = evaluate(expression, [50, 3, 7])

    assert value is None or (expression.startswith("(((") and value == 50)  # only parentheses: harmless


def test_nine_may_not_be_used_a_hundred_times_however_it_is_written() -> None:
    assert evaluate("9*9", [9]) is None
    assert evaluate("9*9", [9, 9]) == 81


@given(expressions)
def test_evaluates_exactly_what_python_does(expression: str) -> None:
    numbers = [
        int(word) for word in expression.replace("(", " ").replace(")", " ").split() if word.isdecimal()
    ]
    exact = "".join(
        f"Fraction({word})" if word.isdecimal() else word
        for word in expression.replace("(", "( ").replace(")", " )").split()
    )
    try:
        expected = eval(exact, {"Fraction": Fraction})
    except ZeroDivisionError:
        expected = None

    assert evaluate(expression, numbers) == expected


@given(st.text(alphabet="0123456789+-*/() .x_", max_size=220), st.lists(st.integers(1, 99), max_size=6))
def test_no_text_breaks_the_verifier(text: str, numbers: list[int]) -> None:
    answer = json.dumps({"numbers": numbers, "target": 7})

    verdict = ExpressionVerifier().verify(answer, f"<answer>{text}</answer>")
    assert verdict.failure == ""


@given(st.lists(st.integers(1, 99), min_size=1, max_size=6), st.integers())
def test_targets_are_reachable(numbers: list[int], seed: int) -> None:
    """By exhaustion for few numbers: the target is among all values that there are."""
    target = reachable_target(numbers, random.Random(seed))

    if len(numbers) <= 3:
        assert target in all_values(tuple(map(Fraction, numbers)))


def all_values(values: tuple[Fraction, ...]) -> set[Fraction]:
    if len(values) == 1:
        return {values[0]}
    found = set()
    for i, left in enumerate(values):
        for j, right in enumerate(values):
            if i == j:
                continue
            rest = [value for k, value in enumerate(values) if k not in (i, j)]
            for value in (left + right, left - right, left * right, left / right if right else left):
                found |= all_values((*rest, value))
    return found


def test_problems_are_in_range_distinct_and_of_both_sizes() -> None:
    task = make_task(
        "countdown", {"train_prompts": 200, "held_out_pool": 50, "max_target": 60, "max_number": 30}
    )
    training, held_out = task.training_prompts(0), task.held_out_prompts(50)

    problems = [json.loads(prompt.answer) for prompt in [*training, *held_out]]
    assert len({prompt.id for prompt in [*training, *held_out]}) == 250
    assert all(1 <= problem["target"] <= 60 and max(problem["numbers"]) <= 30 for problem in problems)
    assert {prompt.difficulty for prompt in training} == {prompt.difficulty for prompt in held_out} == {3, 4}
    assert [prompt.difficulty for prompt in training].count(3) == 100


def test_held_out_problems_are_the_same_however_many_are_trained_on() -> None:
    few = make_task("countdown", {"train_prompts": 10, "held_out_pool": 20})
    many = make_task("countdown", {"train_prompts": 100, "held_out_pool": 20})

    assert few.held_out_prompts(20) == many.held_out_prompts(20)
    assert few.training_prompts(1) != few.training_prompts(2)
    assert few.training_prompts(1) == few.training_prompts(1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"min_numbers": 5, "max_numbers": 4}, "min_numbers is above"),
        ({"min_numbers": 1}, "option min_numbers"),
        ({"colour": 1}, "option colour"),
        ({"max_number": 2, "max_numbers": 3}, "found only"),
    ],
)
def test_wrong_options(options: dict, reason: str) -> None:
    with pytest.raises(TaskError, match=reason):
        make_task("countdown", options)


def test_too_many_held_out_prompts() -> None:
    task = make_task("countdown", {"train_prompts": 1, "held_out_pool": 3})

    with pytest.raises(ValueError, match="holds out 3 prompts, not 4"):
        task.held_out_prompts(4)


def test_verifier_travels() -> None:
    verifier = ExpressionVerifier()

    assert pickle.loads(pickle.dumps(verifier)) == verifier
    assert hash(verifier) == hash(ExpressionVerifier())


COMPACT = {"form": "compact", "operations": "+-*", "min_numbers": 3, "max_numbers": 5, "max_number": 9}


@pytest.mark.parametrize(
    ("response", "correct"),
    [
        ("3*7=21+5=26</think>3*7+5", True),
        ("</think> 3*7+5 ", True),
        ("</think>5+3*7", False),  # from left to right it is 56
        ("</think>3*7+5=26", False),
        ("</think>26", False),
        ("</think>21+5", False),  # 21 is not given
        ("</think>7+7+7+5", False),  # 7 is given once
        ("3*7+5", False),
        ("</think>3*7</think>3*7+5", False),
        ("</think>3*7+", False),
        ("</think>" + "3+" * 20 + "3", False),
        ("</think>", False),
    ],
)
def test_chains_are_worked_off_from_left_to_right(response: str, correct: bool) -> None:
    prompt = compact_prompt([3, 7, 5], 26)

    assert prompt.text == "3,7,5=26<think>"
    assert ChainVerifier().verify(prompt.answer, response).correct is correct


def test_compact_problems_have_a_chain() -> None:
    task = make_task("countdown", COMPACT)
    for prompt in task.held_out_prompts(30):
        problem = json.loads(prompt.answer)
        numbers, target = problem["numbers"], problem["target"]
        signs = itertools.product("+-*", repeat=len(numbers) - 1)
        chains = itertools.product(set(itertools.permutations(numbers)), signs)
        assert any(chain_values(order, steps)[-1] == target for order, steps in chains), prompt.text


def test_compact_task_judges_chains_and_grades_by_how_many_numbers_there_are() -> None:
    task = make_task("countdown", COMPACT)
    prompts = [*task.training_prompts(0), *task.held_out_prompts(1024)]

    assert isinstance(task.verifier(prompts[0]), ChainVerifier)
    assert {prompt.difficulty for prompt in prompts} == {3, 4, 5}
    assert len({prompt.text for prompt in prompts}) == 2048 + 1024


@given(seed=st.integers(0, 2**32), size=st.integers(2, 6))
def test_random_chains_stay_in_their_range(seed: int, size: int) -> None:
    order, steps = draw_chain([9] * size, random.Random(seed), "+-*/")

    assert "/" not in steps
    assert all(0 <= value <= 99 for value in chain_values(order, steps))


def test_numbers_of_chains_have_two_digits_at_most() -> None:
    with pytest.raises(TaskError, match="form compact needs max_number of at most 99"):
        make_task("countdown", COMPACT | {"max_number": 100})
