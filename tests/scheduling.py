"""Which tests run beside which under pytest-xdist: files side by side, and one unit of those that fill the machine.

What needs the whole stack, Ray, vLLM or a GPU is that one unit. It is handed out first, to one process, which so starts
one stack and never two engines at once; the other processes work on everything else meanwhile.
"""

import re
from functools import cache
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from stack.environment import ROOT

# Found in the text of a file: who hands out the tests knows their names alone.
MARKS = ("stack", "vllm", "ray", "gpu")
MARKED = re.compile(rf"\bmark\.({'|'.join(MARKS)})\b")


def file_of(test: str) -> str:
    return test.split("::", 1)[0]


@cache
def fills_the_machine(file: str) -> bool:
    """Of a file of tests, by its path from the root of the repository."""
    return MARKED.search((ROOT / file).read_text()) is not None


def turn(test: str) -> int:
    """Of a test's id: what fills the machine first, so that the rest has something to run beside; browser tests last,
    since Playwright keeps an event loop running, in which no other test could start its own.
    """
    file = file_of(test)
    return 0 if fills_the_machine(file) else 2 if file.startswith("tests/browser/") else 1


class InUnits(LoadScopeScheduling):
    """Hands out units in the order of their tests."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return "what fills the machine" if fills_the_machine(file) else file
