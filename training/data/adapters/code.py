"""Programming. The answer is JSON of the tests, one of

{"kind": "stdin", "inputs": ["..."], "outputs": ["..."]}
{"kind": "functional", "fn_name": "f", "inputs": [[argument, ...]], "outputs": [value]}
{"kind": "asserts", "setup": "...", "tests": ["assert ..."], "entry_point": "f"}
"""

import ast
import base64
import binascii
import io
import json
import pickle  # nosec B403  # loads strings only
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from training.data.base import Problem, Row

MAX_TEST_BYTES = 1 << 28  # of one problem's compressed tests, after unpacking
_LEVELS = {"easy": 1.0, "medium": 2.0, "hard": 3.0}
_KEYS = {
    "stdin": {"inputs", "outputs"},
    "functional": {"fn_name", "inputs", "outputs"},
    "asserts": {"setup", "tests", "entry_point"},
}
_FROM_STDIN = "Read the input from standard input and write the output to standard output."


def deepcoder(row: Row) -> Problem:
    """Fields problem, tests (JSON), starter_code?, metadata?.

    tests is a list of {"input", "output", "type" or "testtype", "fn_name"?, "metadata"?}, or one object
    {"inputs", "outputs", "fn_name"?}.
    """
    found = row.parsed("tests")
    if isinstance(found, Mapping):
        tests = _from_columns(row, found)
    elif isinstance(found, list) and found:
        tests = _from_cases(row, "tests", found)
    else:
        raise row.error("tests", "must be a list of tests or an object with inputs and outputs")
    return Problem(_program_text(row.text("problem"), row, tests), json.dumps(tests))


def livecodebench(row: Row) -> Problem:
    """Fields question_content, starter_code, public_test_cases, private_test_cases, metadata, difficulty,
    question_id."""
    cases = row.parsed("public_test_cases")
    if not isinstance(cases, list):
        raise row.error("public_test_cases", "must be a JSON list")
    if row.optional_text("private_test_cases"):
        cases = cases + _private_cases(row)
    if not cases:
        raise row.error("public_test_cases", "is empty, and so is private_test_cases")
    tests = _from_cases(row, "public_test_cases", cases)
    level = row.optional_text("difficulty")
    if level and level not in _LEVELS:
        raise row.error("difficulty", "must be easy, medium or hard")
    text = _program_text(row.text("question_content"), row, tests)
    return Problem(text, json.dumps(tests), row.optional_label("question_id"), _LEVELS.get(level))


def humaneval(row: Row) -> Problem:
    """Fields task_id, prompt (imports, signature, docstring), test (defines check), entry_point."""
    prompt = row.text("prompt")
    # The prompt itself runs first, for its imports and helper functions; the verifier calls check(candidate).
    tests = {
        "kind": "asserts",
        "setup": prompt,
        "tests": [row.text("test")],
        "entry_point": row.text("entry_point"),
    }
    check_tests(row, "test", tests)
    text = f"Complete this function:\n\n```python\n{prompt.strip()}\n```"
    return Problem(text, json.dumps(tests), row.optional_label("task_id"))


def mbpp(row: Row) -> Problem:
    """Fields text or prompt, test_list, task_id, code (the reference), and test_setup_code or (sanitized)
    test_imports."""
    return _mbpp(row, row.texts("test_list"), "test_list")


def mbpp_plus(row: Row) -> Problem:
    """As `mbpp`, and test: the program that compares many more cases. The prompt shows test_list alone."""
    return _mbpp(row, [row.text("test")], "test")


def _mbpp(row: Row, sources: list[str], field: str) -> Problem:
    imports = row.texts("test_imports", least=0) if row.has("test_imports") else []
    setup = "\n".join([*imports, row.optional_text("test_setup_code")]).strip()
    examples = "\n".join(row.texts("test_list"))
    name = _tested_function(row.optional_text("code"), examples)
    tests = {"kind": "asserts", "setup": setup, "tests": sources, "entry_point": name}
    check_tests(row, field, tests)
    text = f"{row.text('text', 'prompt').strip()}\n\nYour code should pass these tests:\n\n{examples}"
    return Problem(text, json.dumps(tests), row.optional_label("task_id"))


def check_tests(row: Row, field: str, tests: Any) -> dict[str, Any]:
    """Tests in one of the three forms, checked. DataError names what is wrong."""
    kind = tests.get("kind") if isinstance(tests, Mapping) else None
    if kind not in _KEYS:
        raise row.error(field, 'must be an object with "kind": "stdin", "functional" or "asserts"')
    if unknown := sorted(set(tests) - _KEYS[kind] - {"kind"}):
        raise row.error(f"{field}.{unknown[0]}", f"is no field of tests of the kind {kind}")
    if kind == "asserts":
        _check_assertions(row, field, tests)
    else:
        _check_cases(row, field, tests)
    return dict(tests)


def _check_assertions(row: Row, field: str, tests: Mapping[str, Any]) -> None:
    sources = row.check_texts(f"{field}.tests", tests.get("tests"))
    for name in ("setup", "entry_point"):
        if not isinstance(tests.get(name, ""), str):
            raise row.error(f"{field}.{name}", "must be a string")
    try:
        ast.parse("\n".join([tests.get("setup", ""), *sources]))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise row.error(f"{field}.tests", f"are not Python: {error}") from None


def _check_cases(row: Row, field: str, tests: Mapping[str, Any]) -> None:
    kind, name = tests["kind"], tests.get("fn_name")
    if kind == "functional" and not (isinstance(name, str) and name.isidentifier()):
        raise row.error(f"{field}.fn_name", "must be the function's name")
    inputs, outputs = tests.get("inputs"), tests.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or not inputs:
        raise row.error(f"{field}.inputs", "and outputs must be lists that are not empty")
    if len(inputs) != len(outputs):
        raise row.error(f"{field}.outputs", f"are {len(outputs)}, and inputs {len(inputs)}")
    expected, what = (str, "strings") if kind == "stdin" else (list, "lists of arguments")
    if not all(isinstance(value, expected) for value in inputs):
        raise row.error(f"{field}.inputs", f"must be {what}")
    if kind == "stdin" and not all(isinstance(value, str) for value in outputs):
        raise row.error(f"{field}.outputs", "must be strings")


def _from_columns(row: Row, tests: Mapping[str, Any]) -> dict[str, Any]:
    """{"inputs", "outputs", "fn_name"?}: TACO and APPS."""
    inputs, outputs, name = tests.get("inputs"), tests.get("outputs"), tests.get("fn_name")
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise row.error("tests", "must have the lists inputs and outputs")
    return _functional(row, name, inputs, outputs) if name else _stdin(row, inputs, outputs)


def _from_cases(row: Row, field: str, cases: Sequence[Any]) -> dict[str, Any]:
    """[{"input", "output", ...}]: PrimeIntellect and LiveCodeBench."""
    for case in cases:
        if not isinstance(case, Mapping) or "input" not in case or "output" not in case:
            raise row.error(field, 'must be a list of objects with "input" and "output"')
    inputs, outputs = [case["input"] for case in cases], [case["output"] for case in cases]
    kinds = {case.get("testtype") or case.get("type") or "stdin" for case in cases}
    if kinds <= {"stdin", "stdin_stdout"}:
        return _stdin(row, inputs, outputs, field)
    if kinds == {"function_call"}:
        return _functional(row, cases[0].get("fn_name"), inputs, outputs, field)
    if kinds == {"functional"}:
        return _leetcode(row, cases[0], inputs, outputs, field)
    raise row.error(field, f"have types that cannot be run: {', '.join(sorted(map(str, kinds)))}")


def _stdin(row: Row, inputs: list[Any], outputs: list[Any], field: str = "tests") -> dict[str, Any]:
    """Some data sets keep lines in a list."""

    def joined(value: Any) -> Any:
        is_lines = isinstance(value, list) and all(isinstance(line, str) for line in value)
        return "\n".join(value) if is_lines else value

    tests = {
        "kind": "stdin",
        "inputs": [joined(value) for value in inputs],
        "outputs": [joined(value) for value in outputs],
    }
    return check_tests(row, field, tests)


def _functional(
    row: Row, name: Any, inputs: list[Any], outputs: list[Any], field: str = "tests"
) -> dict[str, Any]:
    """Where every output is a list of one, the list is the data set's wrapping, not the function's value."""
    if all(isinstance(value, list) and len(value) == 1 for value in outputs):
        outputs = [value[0] for value in outputs]
    tests = {"kind": "functional", "fn_name": name, "inputs": inputs, "outputs": outputs}
    return check_tests(row, field, tests)


def _leetcode(
    row: Row, first: Mapping[str, Any], inputs: list[Any], outputs: list[Any], field: str
) -> dict[str, Any]:
    """One JSON argument a line; the function's name is in the test's or the row's metadata."""
    metadata = first.get("metadata") or (row.parsed("metadata") if row.has("metadata") else None)
    name = metadata.get("func_name") if isinstance(metadata, Mapping) else None
    if not name:
        raise row.error("metadata", "must have func_name for functional tests")
    if not all(isinstance(value, str) for value in [*inputs, *outputs]):
        raise row.error(field, "functional tests must keep input and output as JSON in strings")
    arguments = [[row.parse(field, line) for line in value.split("\n") if line.strip()] for value in inputs]
    values = [row.parse(field, value) for value in outputs]
    tests = {"kind": "functional", "fn_name": name, "inputs": arguments, "outputs": values}
    return check_tests(row, field, tests)


def _tested_function(reference: str, tests: str) -> str:
    """The function of the reference that the tests call: it may have the name of a built-in one, such as `sum`."""
    try:
        defined = [node.name for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef)]
        used = {node.id for node in ast.walk(ast.parse(tests)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError):
        return ""
    return next((name for name in reversed(defined) if name in used), "")


def _program_text(question: str, row: Row, tests: Mapping[str, Any]) -> str:
    if starter := row.optional_text("starter_code").strip():
        return f"{question.strip()}\n\nUse this starter code:\n\n```python\n{starter}\n```"
    name = tests.get("fn_name")
    rule = f"Write the function `{name}`." if name else _FROM_STDIN
    return f"{question.strip()}\n\n{rule}"


class _StringsOnly(pickle.Unpickler):
    """LiveCodeBench pickles one string. No class or function is ever looked up."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is refused")


def _private_cases(row: Row) -> list[Any]:
    """JSON, or base64 of zlib of a pickled string of JSON."""
    field = "private_test_cases"
    text = row.text(field)
    cases = row.parse(field, text if text.lstrip()[:1] == "[" else _unpacked(row, field, text))
    if not isinstance(cases, list):
        raise row.error(field, "must be a JSON list")
    return cases


def _unpacked(row: Row, field: str, text: str) -> str:
    unzip = zlib.decompressobj()
    try:
        data = unzip.decompress(base64.b64decode(text, validate=True), MAX_TEST_BYTES)
        if unzip.unconsumed_tail:
            raise row.error(field, f"is larger than {MAX_TEST_BYTES} bytes unpacked")
        value = _StringsOnly(io.BytesIO(data)).load()
    except (binascii.Error, zlib.error):
        raise row.error(field, "is neither JSON nor compressed tests") from None
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, TypeError, OverflowError):
        raise row.error(field, "holds something else than a pickled string") from None
    if not isinstance(value, str):
        raise row.error(field, "holds something else than a pickled string")
    return value
