"""Which tests run beside which under pytest-xdist: files side by side, and one unit of those that fill the machine.

What needs the whole stack, Ray or vLLM is that one unit. It is handed out first, to one process, which so starts one
stack and never two engines at once; the other processes work on everything else meanwhile.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

WHOLE_MACHINE = (
    "tests/e2e/",
    "tests/browser/test_training.py",
    "tests/headroom/test_with_real_server.py",
    "tests/stack/test_supervisor.py",
    "tests/worker/test_ray_jobs.py",
    "tests/training/cluster/test_cluster.py",
    "tests/training/cluster/test_cluster_run.py",
    "tests/training/cluster/test_kill.py",
    "tests/training/test_main.py",
    "tests/training/test_precision.py",
    "tests/training/test_vllm.py",
    "tests/gpu/",
)


def fills_the_machine(test: str) -> bool:
    """Of a test's id or the path of its file, from the root of the repository."""
    return test.startswith(WHOLE_MACHINE)


def turn(test: str) -> int:
    """Of a test's id: what fills the machine first, so that the rest has something to run beside; browser tests last,
    since Playwright keeps an event loop running, in which no other test could start its own.
    """
    return 0 if fills_the_machine(test) else 2 if test.startswith("tests/browser/") else 1


class InUnits(LoadScopeScheduling):
    """Hands out units in the order of their tests."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return "whole machine" if fills_the_machine(nodeid) else nodeid.split("::", 1)[0]
