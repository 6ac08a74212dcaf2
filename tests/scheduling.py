"""Which tests run beside which under pytest-xdist: files side by side, and one unit of the tests that fill the machine.

A test that needs the whole stack, Ray, vLLM or a GPU belongs to that unit, the others of its file do not. It is handed
out first, to one process, which so starts one stack and never two engines at once; the other processes work on
everything else meanwhile.
"""

import ast
import re
from functools import cache
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from stack.environment import ROOT

# Found in the text of a test: who hands out the tests knows their names alone.
MARKS = ("stack", "vllm", "ray", "gpu")
STACKS = ("stack", "stack_with_model")  # fixtures
MARKED = re.compile(rf"\bmark\.({'|'.join(MARKS)})\b")
UNIT = "what fills the machine"
FORKS = "what forks ranks"
# They stop the stack that the others of the unit share.
LAST = ("test_killed_supervisor_leaves_nothing_and_the_next_one_starts", "test_sigterm_stops_every_child")


def file_of(test: str) -> str:
    return test.split("::", 1)[0]


def name_of(test: str) -> str:
    """Of the function behind a test's id."""
    return test.split("::")[-1].split("[", 1)[0]


@cache
def marked_in(file: str) -> frozenset[str] | None:
    """Names of the test functions of a file that fill the machine; None: all of them."""
    text = (ROOT / file).read_text()
    if not MARKED.search(text) and not any(name in text for name in STACKS):
        return frozenset()
    tree = ast.parse(text)
    own = [node for node in tree.body if isinstance(node, ast.Assign) and _targets(node) == {"pytestmark"}]
    if any(MARKED.search(ast.unparse(node.value)) for node in own):
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return frozenset(node.name for node in functions if _is_marked(node))


def _targets(node: ast.Assign) -> set[str]:
    return {target.id for target in node.targets if isinstance(target, ast.Name)}


def _is_marked(node: ast.FunctionDef) -> bool:
    has_mark = any(MARKED.search(ast.unparse(decorator)) for decorator in node.decorator_list)
    return has_mark or any(argument.arg in STACKS for argument in node.args.args)


def fills_the_machine(test: str) -> bool:
    """Of a test's id."""
    names = marked_in(file_of(test))
    return names is None or name_of(test) in names


@cache
def forks_ranks(file: str) -> bool:
    """Of a process that has imported the trainer, which takes longer than most of what they do: one for all."""
    return "from tests.training.ranks import" in (ROOT / file).read_text()


def turn(test: str) -> tuple[int, int]:
    """Of a test's id: what fills the machine first, so that the rest has something to run beside; browser tests last,
    since Playwright keeps an event loop running, in which no other test could start its own.
    """
    if fills_the_machine(test):
        return 0, LAST.index(name_of(test)) + 1 if name_of(test) in LAST else 0
    return 2 if file_of(test).startswith("tests/browser/") else 1, 0


class InUnits(LoadScopeScheduling):
    """Hands out units in the order of their tests."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        if fills_the_machine(nodeid):
            return UNIT
        return FORKS if forks_ranks(file_of(nodeid)) else file_of(nodeid)
