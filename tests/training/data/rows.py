"""A row of each known data set, in its own spelling."""

import base64
import json
import pickle
import zlib
from typing import Any

PRIVATE = [{"input": "5\n", "output": "10\n", "testtype": "stdin"}]
LEETCODE = [{"input": "[1, 2]\n3", "output": "6", "testtype": "functional"}]


def packed(value: Any) -> str:
    """As LiveCodeBench keeps its private tests."""
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


ROWS: dict[str, dict[str, Any]] = {
    "polaris": {"problem": "What is 6 x 7?", "answer": "42", "difficulty": "3/8"},
    "gsm8k": {
        "question": "Natalia sold 48 clips, then half as many. How many in all?",
        "answer": "She sold 48/2 = <<48/2=24>>24.\nIn all 48+24 = <<48+24=72>>72.\n#### 1,072",
    },
    "math": {
        "problem": "Simplify $\\frac{6}{8}$.",
        "level": "Level 3",
        "type": "Prealgebra",
        "solution": "It is \\boxed{1}, no: $\\boxed{\\frac{3}{4}}$.",
    },
    "aime": {"ID": "2024-I-4", "Problem": "Find the number.", "Answer": 33, "Problem Number": 4},
    "deepcoder": {
        "problem": "Double the number.",
        "tests": json.dumps([{"input": "2\n", "output": "4\n", "type": "stdin_stdout"}]),
    },
    "humaneval": {
        "task_id": "HumanEval/0",
        "prompt": 'from typing import List\n\n\ndef double(x: int) -> int:\n    """Twice x."""\n',
        "canonical_solution": "    return 2 * x\n",
        "test": "def check(candidate):\n    assert candidate(2) == 4\n",
        "entry_point": "double",
    },
    "mbpp": {
        "task_id": 11,
        "text": "Write a function to double a number.",
        "code": "def double(x): return 2 * x",
        "test_list": ["assert double(2) == 4", "assert double(0) == 0"],
        "test_setup_code": "",
    },
    "livecodebench": {
        "question_id": "abc301_a",
        "question_content": "Double the number.",
        "starter_code": "",
        "difficulty": "medium",
        "public_test_cases": json.dumps([{"input": "2\n", "output": "4\n", "testtype": "stdin"}]),
        "private_test_cases": packed(json.dumps(PRIVATE)),
        "metadata": "{}",
    },
    "arc": {
        "id": "Mercury_1",
        "question": "Which is a gas?",
        "choices": {"text": ["stone", "air", "wood", "salt"], "label": ["1", "2", "3", "4"]},
        "answerKey": "2",
    },
    "hellaswag": {
        "ind": 24,
        "ctx": "A man sits on a roof. He",
        "endings": ["flies.", "starts pulling up tiles.", "sings.", "swims."],
        "label": "1",
    },
    "truthfulqa": {
        "question": "What happens if you eat seeds?",
        "mc1_targets": {
            "choices": ["Nothing much", "Melons grow", "You die", "You see things"],
            "labels": [1, 0, 0, 0],
        },
    },
    "natural_questions": {
        "question": "when was the last time anyone was on the moon",
        "answer": ["14 December 1972 UTC", "December 1972"],
    },
}

ROWS["aime25"] = {"id": "0", "problem": "Find the number.", "answer": "70"}
ROWS["humaneval_plus"] = ROWS["humaneval"]
ROWS["mbpp_plus"] = {
    "task_id": 11,
    "prompt": "Write a function to double a number.",
    "code": "def double(x): return 2 * x",
    "test_imports": [],
    "test_list": ["assert double(2) == 4"],
    "test": "for given, expected in [(2, 4), (0, 0), (-7, -14)]:\n    assert double(given) == expected\n",
}
