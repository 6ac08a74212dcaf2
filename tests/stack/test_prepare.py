"""Waiting for the process that prepares the database."""

import subprocess
import sys
import threading

import pytest

from stack import prepare
from stack.prepare import PrepareError

UNTIL_CLOSED = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.fixture
def process():
    with subprocess.Popen(UNTIL_CLOSED, stdin=subprocess.PIPE) as started:
        yield started


def test_a_long_one_is_waited_for_and_says_so_now_and_then(process, monkeypatch):
    monkeypatch.setattr(prepare, "SAY_SECONDS", 0.0)
    said = []

    def say():
        said.append("still")
        if len(said) == 3:
            process.stdin.close()

    prepare._wait(process, threading.Event(), say)

    assert len(said) >= 3 and process.returncode == 0


def test_a_stop_ends_it(process):
    stopping = threading.Event()
    stopping.set()

    with pytest.raises(PrepareError, match="stopped"):
        prepare._wait(process, stopping, lambda: None)
    assert process.returncode == 0
