"""The whole stack with the base model of the default task in place."""

import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from stack.environment import ROOT
from tests.running_stack import RunningStack, stack_environment

PRETRAIN_SECONDS = 300


@pytest.fixture(scope="session")
def stack_with_model(stack: RunningStack) -> RunningStack:
    """The running stack after `python -m training pretrain`, as `make demo` does it."""
    subprocess.run(
        [sys.executable, "-m", "training", "pretrain"],
        cwd=ROOT,
        env=stack_environment(stack.home),
        check=True,
        timeout=PRETRAIN_SECONDS,
    )
    return stack


@pytest.fixture(scope="session")
def api(stack_with_model: RunningStack) -> Iterator[httpx.Client]:
    """The REST API with a token that may launch."""
    headers = {"Authorization": f"Bearer {stack_with_model.token('launch')}"}
    with httpx.Client(base_url=f"{stack_with_model.url}/api/v1/", headers=headers, timeout=30) as client:
        yield client
