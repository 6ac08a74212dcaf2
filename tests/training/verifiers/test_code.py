import json

import pytest

from training.verifiers import sandbox
from training.verifiers.base import Verdict
from training.verifiers.code import CodeVerifier, extract_code, parse_tests
from training.verifiers.sandbox import LAYERS, SandboxError

pytestmark = pytest.mark.usefixtures("whole_sandbox")

STDIN = {"kind": "stdin", "inputs": ["1 2\n", "3 4\n"], "outputs": ["3", "7\n"]}
FUNCTIONAL = {"kind": "functional", "fn_name": "add", "inputs": [[1, 2], [[1], [2]]], "outputs": [3, [1, 2]]}
MBPP = {
    "kind": "asserts",
    "tests": [
        "assert add(1, 2) == 3",
        "assert math.isclose(add(.1, .2), .3)",
        "assert set(pair(1, 2)) == {1, 2}",
    ],
}
MBPP_SOLUTION = "def add(a, b): return a + b\ndef pair(a, b): return (a, b)\n"
HUMANEVAL = {
    "kind": "asserts",
    "setup": "from typing import List\n",
    "tests": [
        "def check(candidate):\n"
        "    assert candidate([1, 2]) == 3, 'sum'\n"
        "    for i in range(100): assert candidate([i]) == i\n"
        "    assert helper(1) == 2\n"
    ],
    "entry_point": "total",
}
HUMANEVAL_SOLUTION = "def helper(x): return x + 1\ndef total(x: List[int]) -> int: return sum(x)"


def judge(tests: dict, code: str, **options) -> Verdict:
    return CodeVerifier(**options).verify(
        json.dumps(tests), f"<think>hm</think>Here:\n```python\n{code}\n```\nDone."
    )


@pytest.mark.parametrize(
    ("tests", "code"),
    [
        (STDIN, "a, b = map(int, input().split())\nprint(a + b)"),
        (STDIN, "print(sum(map(int, open(0).read().split())), '  \\n\\n')"),
        (
            STDIN,
            "import sys\nif __name__ == '__main__': print(sum(map(int, sys.stdin.buffer.read().split())))\nexit(0)",
        ),
        (FUNCTIONAL, "def add(a, b):\n    print('noise')\n    return a + b"),
        (FUNCTIONAL, "class Solution:\n    def add(self, a: List[int], b: List[int]): return a + b"),
        (FUNCTIONAL, "def add(a, b): return a + b if a == 1 else (a[0], b[0])"),
        (MBPP, MBPP_SOLUTION),
        (
            MBPP,
            "import sys\n" + MBPP_SOLUTION + "print('noise', add(1, 1))\nif __name__ == '__main__': input()",
        ),
        (
            MBPP,
            "class Solution:\n    def add(self, a, b): return a + b\n    def pair(self, a, b): return [b, a]",
        ),
        (HUMANEVAL, HUMANEVAL_SOLUTION),
    ],
)
def test_right(tests: dict, code: str) -> None:
    assert judge(tests, code) == Verdict(True)


@pytest.mark.parametrize(
    ("tests", "code", "reason"),
    [
        (STDIN, "print(3)", "test 2: wrong output"),
        (STDIN, "print(' 3')", "test 1: wrong output"),
        (STDIN, "print('3\\n7')", "test 1: wrong output"),
        (STDIN, "1 / 0", "test 1: ZeroDivisionError: division by zero"),
        (STDIN, "print(3)\nimport os\nos._exit(1)", "test 1: exit status 1"),
        (FUNCTIONAL, "def add(a, b): return 3", "test 2: wrong output"),
        (FUNCTIONAL, "def sub(a, b): return 3", "test 1: NameError: the program has no add"),
        (
            FUNCTIONAL,
            "def add(a, b): return object()",
            "test 1: TypeError: Object of type object is not JSON serializable",
        ),
        (MBPP, "def add(a, b): return 3\npair = add", "AssertionError"),
        (MBPP, "x = = 1", "RuntimeError: invalid syntax (program.py, line 2)"),
        (MBPP, "def add(a, b): return a + b", "NameError: the program has no pair"),
        (HUMANEVAL, "def helper(x): return 2\ndef total(x): return 3", "AssertionError"),
        (HUMANEVAL, "def total(x): return x[99]", "IndexError: list index out of range"),
    ],
)
def test_wrong(tests: dict, code: str, reason: str) -> None:
    assert judge(tests, code) == Verdict(False, reason=reason)


FORGERIES = [
    "import os\nos._exit(0)",
    "def add(*_):\n    import os\n    os._exit(0)\ntotal = pair = add",
    "def add(*_): raise SystemExit(0)\ntotal = pair = add",
    "def add(*_): raise StopIteration\ntotal = pair = add",
    """# equal to everything
class All(int):
    __eq__ = lambda s, o: True
    __iter__ = lambda s: iter([1, 2])
    __hash__ = lambda s: 3
add = pair = total = lambda *_: All()
""",
    """# patched modules and built-ins
import math, builtins
math.isclose = lambda *_: True
builtins.set = lambda *_: {1, 2}
add = pair = total = lambda *_: 3
""",
    """# a look at the frames, and at everything alive, for what is expected
import gc, sys
def add(*_):
    frame = sys._getframe()
    while frame:
        for value in [*frame.f_locals.values()]:
            if isinstance(value, dict) and 'outputs' in value: return value['outputs'][0]
        frame = frame.f_back
    return [o for o in gc.get_objects() if isinstance(o, dict) and 'outputs' in o][0]['outputs']
total = pair = add
""",
    *(
        "import os\nfor number in range(64):\n    try: os.write(number, b'" + line + r"\n' * 9)"
        "\n    except OSError: pass\nos._exit(0)"
        for line in ('{"missing": [], "status": 0}', '{"value": true}', '{"reference": 0}', "[" * 5000)
    ),
]


KINDS = {"stdin": STDIN, "functional": FUNCTIONAL, "mbpp": MBPP, "humaneval": HUMANEVAL}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        pytest.param(kind, code, marks=() if (number + place) % 2 == 0 else pytest.mark.deep)
        for number, code in enumerate(FORGERIES)
        for place, kind in enumerate(KINDS)
    ],
)
def test_forgeries_do_not_pass(kind: str, code: str) -> None:
    verdict = judge(KINDS[kind], code, test_seconds=3.0)

    assert (verdict.correct, verdict.failure) == (False, "")


@pytest.mark.parametrize("tests", [STDIN, FUNCTIONAL, MBPP], ids=["stdin", "functional", "mbpp"])
def test_endless_loop_is_wrong_and_not_a_failure(tests: dict) -> None:
    verdict = judge(tests, "while True: pass", test_seconds=0.5)

    assert (verdict.correct, verdict.failure) == (False, "")
    assert "not done after 0.5 s" in verdict.reason


def test_all_tests_together_have_a_limit() -> None:
    tests = {"kind": "stdin", "inputs": [""] * 1000, "outputs": [""] * 1000}

    verdict = judge(tests, "import time\ntime.sleep(0.2)", timeout_seconds=0.5)

    assert not verdict.correct and verdict.failure == ""
    assert "not done after" in verdict.reason or "no time left" in verdict.reason


def test_long_expected_output() -> None:
    tests = {"kind": "stdin", "inputs": ["100000"], "outputs": ["x\n" * 100_000]}

    assert judge(tests, "print('x\\n' * int(input()))").correct


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ("not json", "broken tests: answer: Invalid JSON"),
        ('{"kind": "chess"}', "broken tests: answer: Input tag 'chess'"),
        ('{"kind": "stdin", "inputs": ["1"], "outputs": []}', "broken tests: stdin: 1 inputs and 0 outputs"),
        (
            '{"kind": "stdin", "inputs": [], "outputs": []}',
            "broken tests: stdin.inputs: List should have at least 1",
        ),
        (
            '{"kind": "functional", "inputs": [[1]], "outputs": [1]}',
            "broken tests: functional.fn_name: Field required",
        ),
        (
            '{"kind": "asserts", "tests": ["assert x ="]}',
            "broken tests: asserts: the tests are not Python: invalid",
        ),
    ],
)
def test_broken_tests_are_a_failure(answer: str, failure: str) -> None:
    assert CodeVerifier().verify(answer, "print(1)").failure.startswith(failure)


def test_tests_that_import_what_is_not_there() -> None:
    tests = {"kind": "asserts", "tests": ["import numpy as np", "assert np.all(f(1))"]}

    assert (
        judge(tests, "def f(x): return x").failure
        == "broken tests: ModuleNotFoundError: No module named 'numpy'"
    )
    assert judge(MBPP, "import numpy").reason == "RuntimeError: No module named 'numpy'"


def test_function_named_like_a_built_in() -> None:
    tests = {"kind": "asserts", "tests": ["assert sum(10, 15) == 25"], "entry_point": "sum"}

    assert judge(tests, "def sum(a, b): return a + b").correct


def test_objects_of_the_programs_own_classes() -> None:
    tests = {
        "kind": "asserts",
        "tests": ["assert area(Box(2, 3)) == 6", "assert area(Box(1, 2).scaled(by=2)) == 8"],
    }
    code = """
class Box:
    def __init__(self, w, h): self.w, self.h = w, h
    def scaled(self, by): return Box(self.w * by, self.h * by)
def area(box): return box.w * box.h
"""

    assert judge(tests, code).correct


def test_expected_exceptions() -> None:
    test = "try:\n    f(0)\n    assert False\nexcept ZeroDivisionError:\n    pass"

    assert judge({"kind": "asserts", "tests": [test]}, "def f(x): return 1 / x").correct
    assert not judge({"kind": "asserts", "tests": [test]}, "def f(x): return x").correct


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ("```python\na\n```", "a"),
        ("```python\na\n```\n```py\nb\nc\n```\nbye", "b\nc"),
        ("```python\na\n```\n```\noutput\n```", "a"),
        ("```\na\n```\n```cpp\nb\n```", "b"),
        ("<think>```python\nno\n```</think>```Python title\nyes\n```", "yes"),
        ("  ```python\n  a\n  ```", "  a"),
        ("```python\ncut off", "cut off"),
        ("print(1)", "print(1)"),
        ("<think>only thoughts</think>", ""),
    ],
)
def test_extract_code(response: str, code: str) -> None:
    assert extract_code(response) == code


def test_no_code() -> None:
    assert CodeVerifier().verify(json.dumps(STDIN), "<think>x</think>") == Verdict(False, reason="no code")


def test_missing_protection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "protections", lambda: LAYERS - {"landlock", "seccomp"})

    with pytest.raises(SandboxError, match="lacks landlock, seccomp"):
        CodeVerifier(accept_missing=("limits",)).check()
    CodeVerifier(accept_missing=("landlock", "seccomp")).check()
    assert judge(STDIN, "print(3)").failure.startswith("sandbox: this machine cannot confine untrusted code")


def test_what_the_tests_use_of_the_program() -> None:
    tests = parse_tests(
        json.dumps({"kind": "asserts", "tests": ["assert math.isclose(max(f(x) for x in [1]), g.y)"]})
    )

    assert tests.modules == ["math"]
    assert set(tests.remote_names) == {"f", "g", "x"}
