"""From a row to a verdict: the answer has the form that the verifier reads, and the prompt asks for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training.data.rows import LEETCODE, ROWS
from tests.training.tasks.test_dataset import held_out_row, write
from training.data.adapters import ADAPTERS
from training.tasks import make_task
from training.verifiers.base import Verdict

DOUBLE = "def double(x):\n    return 2 * x"
PROGRAM = "print(2 * int(input()))"


def judge(home: Path, source: str, response: str, change: dict[str, Any] | None = None) -> Verdict:
    """The verdict on a response to the row's prompt."""
    write(home, "train.jsonl", [{**ROWS[source], **(change or {})}])
    write(home, "test.jsonl", [held_out_row(source)])
    options = {"path": "train.jsonl", "adapter": source, "held_out_path": "test.jsonl"}
    task = make_task(ADAPTERS[source].kind, options, home)
    (prompt,) = task.training_prompts(0)
    return task.verifier(prompt).verify(prompt.answer, response)


@pytest.mark.parametrize(
    ("source", "response", "correct"),
    [
        ("polaris", "<think>6 x 7</think>So it is \\boxed{42}.", True),
        ("polaris", "<think>\\boxed{42}</think>So it is \\boxed{41}.", False),
        ("gsm8k", "\\boxed{1{,}072}", True),
        ("math", "\\boxed{0.75}", True),
        ("math", "\\boxed{\\dfrac{3}{4}}", True),
        ("math", "\\boxed{1}", False),
        ("aime", "\\boxed{033}", True),
        ("arc", "Gases flow.\nAnswer: B", True),
        ("arc", "Gases flow.\nAnswer: A", False),
        ("hellaswag", "Answer: B", True),
        ("natural_questions", "It was \\boxed{December 1972}", True),
        ("natural_questions", "\\boxed{the 14 december, 1972 UTC}", True),
        ("natural_questions", "\\boxed{1969}", False),
    ],
)
def test_answers_in_words(tmp_path: Path, source: str, response: str, correct: bool) -> None:
    verdict = judge(tmp_path, source, response)

    assert (verdict.correct, verdict.failure) == (correct, "")


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize(
    ("source", "code", "change"),
    [
        ("humaneval", DOUBLE, {}),
        ("humaneval_plus", DOUBLE, {}),
        ("mbpp", DOUBLE, {}),
        ("mbpp_plus", DOUBLE, {}),
        (
            "mbpp",
            DOUBLE.replace("double", "sum"),
            {"code": "def sum(x): return 2 * x", "test_list": ["assert sum(2) == 4"]},
        ),
        ("livecodebench", PROGRAM, {}),
        ("deepcoder", PROGRAM, {}),
        (
            "deepcoder",
            DOUBLE,
            {"tests": [{"input": [2], "output": [4], "type": "function_call", "fn_name": "double"}]},
        ),
        (
            "livecodebench",
            "class Solution:\n    def total(self, xs, x):\n        return sum(xs) + 2 * x // 2",
            {
                "public_test_cases": json.dumps(LEETCODE),
                "private_test_cases": "",
                "metadata": json.dumps({"func_name": "total"}),
            },
        ),
    ],
)
def test_programs(tmp_path: Path, source: str, code: str, change: dict[str, Any], right: bool) -> None:
    answer = code if right else code.replace("2 *", "3 *")
    verdict = judge(tmp_path, source, f"<think>hm</think>Here:\n```python\n{answer}\n```", change)

    assert (verdict.correct, verdict.failure) == (right, "")


def test_options_of_the_sandbox_reach_the_verifier(tmp_path: Path) -> None:
    write(tmp_path, "train.jsonl", [ROWS["mbpp"]])
    write(tmp_path, "test.jsonl", [held_out_row("mbpp")])
    options = {
        "path": "train.jsonl",
        "adapter": "mbpp",
        "held_out_path": "test.jsonl",
        "accept_missing": ["landlock"],
        "test_seconds": 2.0,
        "problem_seconds": 7.0,
        "memory_mib": 128,
    }
    task = make_task("code", options, tmp_path)
    verifier: Any = task.verifier(task.training_prompts(0)[0])

    assert verifier.accept_missing == ("landlock",)
    assert (verifier.test_seconds, verifier.timeout_seconds, verifier.memory_mib) == (2.0, 7.0, 128)
    assert hash(verifier)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("math", "\\boxed{}"),
        ("exact", "\\boxed{}"),
        ("choice", '"Answer: X"'),
        ("code", "```python block"),
    ],
)
def test_prompt_says_how_to_answer(tmp_path: Path, kind: str, words: str) -> None:
    tests = {"kind": "asserts", "tests": ["assert f() == 1"]}
    row = {"answer": tests if kind == "code" else "B"}
    path = write(tmp_path, "own.jsonl", [row | {"prompt": f"Question {i}?"} for i in range(2)])

    (prompt,) = make_task(kind, {"path": path}, tmp_path).training_prompts(0)
    assert prompt.text.startswith("Question") and words in prompt.text
