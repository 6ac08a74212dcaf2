"""Code against unit tests, in the sandbox.

`answer` is a JSON object in one of these shapes; all tests must pass.

    {"kind": "stdin", "inputs": [text ...], "outputs": [text ...]}           a program; compared line by line
    {"kind": "functional", "fn_name": f, "inputs": [[argument ...] ...], "outputs": [result ...]}
                                                                             f(...), or Solution().f(...)
    {"kind": "asserts", "setup": code, "tests": [code ...], "entry_point": f}
                            MBPP's list of assertions, or HumanEval's `def check(candidate)`; setup and entry_point
                            may be left out, but an entry point that has the name of a built-in function is needed

Expected values never enter the program's process: outputs are compared here, assertions run in a sandbox of their own
that calls the program for every answer (`harness`). Only plain data crosses, so assertions about a changed argument or
`isinstance` of the program's own class cannot hold. Programs and tests have the standard library and no
other package.
"""

import ast
import builtins
import functools
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from training.verifiers.base import Isolation, Verdict
from training.verifiers.sandbox import Limits, Sandbox, SandboxError, require_protections
from training.verifiers.text import final_answer

_FENCE = "```"
_PYTHON = {"python", "python3", "py"}


class BrokenTests(ValueError):
    """The tests of a problem cannot be used."""


class _Tests(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _checked_lengths(tests: Any) -> Any:
    if len(tests.inputs) != len(tests.outputs):
        raise ValueError(f"{len(tests.inputs)} inputs and {len(tests.outputs)} outputs")
    return tests


class StdinTests(_Tests):
    """Inputs on stdin and the outputs that they must give."""

    kind: Literal["stdin"]
    inputs: list[str] = Field(min_length=1)
    outputs: list[str]

    _one_output_each = model_validator(mode="after")(_checked_lengths)


class FunctionalTests(_Tests):
    """Arguments of a function and what it must return."""

    kind: Literal["functional"]
    fn_name: str
    inputs: list[list[Any]] = Field(min_length=1)
    outputs: list[Any]

    _one_output_each = model_validator(mode="after")(_checked_lengths)


class AssertTests(_Tests):
    """Assertions about the functions of a program."""

    kind: Literal["asserts"]
    setup: str = ""
    tests: list[str] = Field(min_length=1)
    entry_point: str = ""

    @model_validator(mode="after")
    def _is_python(self) -> "AssertTests":
        try:
            ast.parse(self.source)
        except SyntaxError as error:
            raise ValueError(f"the tests are not Python: {error.msg}") from None
        return self

    @property
    def source(self) -> str:
        """Everything to run; HumanEval's `check` is called if the tests do not call it."""
        source = "\n".join([self.setup, *self.tests])
        tree = ast.parse(source)
        defines = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
        calls = any(isinstance(node, ast.Expr) and "check(" in ast.unparse(node) for node in tree.body)
        return f"{source}\ncheck(candidate)" if self.entry_point and defines and not calls else source

    @property
    def remote_names(self) -> list[str]:
        """Names that the tests use and may not define: the program's."""
        names = {node.id for node in ast.walk(ast.parse(self.source)) if isinstance(node, ast.Name)}
        return sorted(names - set(dir(builtins)) - {"candidate"} - set(self.modules))

    @property
    def modules(self) -> list[str]:
        """Modules of the standard library that the tests use, perhaps without importing them."""
        nodes = [node.value for node in ast.walk(ast.parse(self.source)) if isinstance(node, ast.Attribute)]
        return sorted({node.id for node in nodes if isinstance(node, ast.Name)} & sys.stdlib_module_names)


Tests = Annotated[StdinTests | FunctionalTests | AssertTests, Field(discriminator="kind")]
_ADAPTER: TypeAdapter[Any] = TypeAdapter(Tests)


@dataclass(frozen=True)
class CodeVerifier:
    """Runs a response's code against tests. Implements `training.verifiers.base.Verifier`.

    accept_missing: protections of the sandbox to do without (see `sandbox`). Seconds and MiB are those of one test,
    timeout_seconds is for all of them.
    """

    accept_missing: tuple[str, ...] = ()
    cpu_seconds: int = 5
    test_seconds: float = 10.0
    memory_mib: int = 512
    timeout_seconds: float = 30.0
    isolation: Isolation = "thread"

    def check(self) -> None:
        """SandboxError where this machine lacks a protection that was not accepted."""
        require_protections(self.accept_missing)

    def verify(self, answer: str, response: str) -> Verdict:
        """A program that is wrong, fails or is late is incorrect; broken tests or sandbox are a failure."""
        try:
            tests = parse_tests(answer)
            if not (code := extract_code(response)):
                return Verdict(False, reason="no code")
            reason = _Judgement(self, code, time.monotonic() + self.timeout_seconds).of(tests)
        except BrokenTests as error:
            return Verdict(False, failure=f"broken tests: {error}")
        except (SandboxError, OSError) as error:
            return Verdict(False, failure=f"sandbox: {error}")
        return Verdict(not reason, reason=reason)


@functools.lru_cache(maxsize=32)  # tests can be large; the samples of a prompt share them
def parse_tests(answer: str) -> StdinTests | FunctionalTests | AssertTests:
    """The tests of a problem; BrokenTests says what is wrong with them."""
    try:
        return _ADAPTER.validate_json(answer)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "answer"
        raise BrokenTests(f"{place}: {first['msg'].removeprefix('Value error, ')}") from None


def extract_code(response: str) -> str:
    """The last fenced block of Python after the thinking trace, else the last block, else the whole answer."""
    answer = final_answer(response)
    blocks: list[tuple[str, list[str]]] = []
    inside = False
    for line in answer.split("\n"):
        if line.strip().startswith(_FENCE):
            if inside := not inside:
                blocks.append(((line.strip().strip("`").lower().split() or [""])[0], []))
        elif inside:
            blocks[-1][1].append(line)
    python = [lines for language, lines in blocks if language in _PYTHON]
    chosen = python or [lines for _, lines in blocks]
    return "\n".join(chosen[-1]) if chosen else answer


class _Judgement:
    """One program against its tests. Each method returns why it does not pass, or "" if it does."""

    def __init__(self, verifier: CodeVerifier, code: str, deadline: float) -> None:
        self._verifier, self._code, self._deadline = verifier, code, deadline

    def of(self, tests: StdinTests | FunctionalTests | AssertTests) -> str:
        """Against any tests."""
        if isinstance(tests, AssertTests):
            return self._asserts(tests)
        if isinstance(tests, StdinTests):
            return self._cases(self._code, tests.inputs, tests.outputs, _same_lines)
        program = _program(f"call_function({self._code!r}, {tests.fn_name!r})")
        inputs, outputs = map(json.dumps, tests.inputs), map(json.dumps, tests.outputs)
        return self._cases(program, list(inputs), list(outputs), _same_value)

    def _cases(self, program: str, inputs: list[str], outputs: list[str], is_same: Any) -> str:
        """Each input in a fresh child of one launcher; the outputs are compared here."""
        limits = self._limits(output_kib=64 + max(map(len, outputs)) // 256)
        with Sandbox(program, limits=limits, accept_missing=self._verifier.accept_missing) as sandbox:
            for number, (given, wanted) in enumerate(zip(inputs, outputs, strict=True), start=1):
                if self._left() <= 0:
                    return f"test {number}: no time left"
                finished = sandbox.run(given, wall_seconds=self._left())
                if finished.status != "ok":
                    return f"test {number}: {finished.reason}"
                if not is_same(finished.stdout, wanted):
                    return f"test {number}: wrong output"
        return ""

    def _asserts(self, tests: AssertTests) -> str:
        """The program answers calls in one sandbox; the assertions run in another, and their exit status counts."""
        names = (tests.remote_names, tests.modules, tests.entry_point)
        judge = _program(f"judge({tests.source!r}, *{names!r})")
        served = _program(f"serve({tests.setup + chr(10) + self._code!r})")
        program, assertions = self._connected(served, judge)
        with program, assertions:
            program.start()
            finished = assertions.run(wall_seconds=self._left(), beside=program)
        if finished.reason.startswith(
            "ModuleNotFoundError"
        ):  # not from the program: its errors arrive by other names
            raise BrokenTests(finished.reason)
        return "" if finished.status == "ok" else finished.reason or finished.status

    def _connected(self, served: str, judge: str) -> tuple[Sandbox, Sandbox]:
        """Two sandboxes, each with the other's output as its input."""
        common: dict[str, Any] = {"limits": self._limits(), "accept_missing": self._verifier.accept_missing}
        pipes = calls_out, calls_in, replies_out, replies_in = (*os.pipe(), *os.pipe())
        try:
            program = Sandbox(served, stdin=calls_out, stdout=replies_in, stderr=subprocess.DEVNULL, **common)
            try:
                return program, Sandbox(judge, stdin=replies_out, stdout=calls_in, **common)
            except BaseException:
                program.close()
                raise
        finally:
            for pipe in pipes:
                os.close(pipe)

    def _left(self) -> float:
        return min(self._verifier.test_seconds, self._deadline - time.monotonic())

    def _limits(self, output_kib: int = 64) -> Limits:
        verifier = self._verifier
        return Limits(
            cpu_seconds=verifier.cpu_seconds,
            wall_seconds=verifier.test_seconds,
            memory_mib=verifier.memory_mib,
            output_kib=output_kib,
        )


@functools.cache
def _harness() -> str:
    return Path(__file__).with_name("harness.py").read_text(encoding="utf-8")


def _program(call: str) -> str:
    return f"{_harness()}\n\n{call}\n"


def _same_lines(printed: str, wanted: str) -> bool:
    """The same lines, but for white space at their ends and empty lines at the end."""
    given, expected = (text.rstrip().split("\n") for text in (printed, wanted))
    return [line.rstrip() for line in given] == [line.rstrip() for line in expected]


def _same_value(printed: str, wanted: str) -> bool:
    try:
        return bool(json.loads(printed) == json.loads(wanted))
    except (ValueError, RecursionError):
        return False
