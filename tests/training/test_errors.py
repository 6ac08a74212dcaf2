import errno
import os

import pytest
from ray.exceptions import RayTaskError

from headroom import JournalBusy
from training.checkpoints import CheckpointError, CheckpointUnwritable
from training.cluster.placement import ClusterError, PartGone
from training.engines.vllm_engine import EngineDied
from training.errors import (
    first_line,
    is_infrastructure,
    last_line,
    logged_error,
    size_of_own_log,
    telling_line,
)


@pytest.mark.parametrize(
    ("message", "first", "last"),
    [
        ("one", "one", "one"),
        ("\n  Traceback:\n\n  in f\n ValueError: bad \n\n", "Traceback:", "ValueError: bad"),
        (" \n ", "KeyError", "KeyError"),
        ("", "KeyError", "KeyError"),
    ],
)
def test_lines_without_a_word_do_not_count(message: str, first: str, last: str) -> None:
    class KeyError(Exception):
        """Its message is shown as it is."""

    assert (first_line(KeyError(message)), last_line(KeyError(message))) == (first, last)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("the model is of an unknown type\n\nYou can upgrade the library", "the model is of an unknown type"),
        ("ray::Actor.load()\nTraceback (most recent call last):\n  in f\nValueError: bad", "ValueError: bad"),
        ("", "ValueError"),
    ],
)
def test_advice_is_left_out_and_so_is_a_traceback(message: str, told: str) -> None:
    assert telling_line(ValueError(message)) == told


LOGGED = """(EngineCore pid=12) ERROR 11-27 00:01:02 [core.py:1510] Traceback (most recent call last):
(EngineCore pid=12) ERROR 11-27 00:01:02 [core.py:1510] ValueError: no room for the KV cache (3 GiB): use less
(EngineCore pid=12) INFO 11-27 00:01:03 [core.py:9] leaving
(EngineCore pid=12) RuntimeError: Worker failed. See stack trace for root cause.
"""


def test_what_a_child_wrote_before_it_died_is_the_cause(capfd: pytest.CaptureFixture[str]) -> None:
    os.write(2, b"KeyError: of something else\n")
    before = size_of_own_log()
    assert logged_error(before) == ""

    os.write(2, LOGGED.encode())
    assert logged_error(before) == "ValueError: no room for the KV cache (3 GiB): use less"
    os.write(2, b"torch.OutOfMemoryError: CUDA out of memory\n")
    assert logged_error(before) == "torch.OutOfMemoryError: CUDA out of memory"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PartGone("generator 0 died"), True),
        (EngineDied("the vLLM engine of process 7 has died"), True),
        (RayTaskError("push", "Traceback", EngineDied("it has died")).as_instanceof_cause(), True),
        (RayTaskError("push", "Traceback", ValueError("a reward")).as_instanceof_cause(), False),
        (CheckpointUnwritable("no room"), True),
        (JournalBusy("is being written by another process"), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.ENOENT, "no such file"), False),
        (ClusterError("too few devices: needs 1 GPU"), False),
        (CheckpointError("is damaged"), False),
        (ValueError("a reward of NaN"), False),
    ],
)
def test_whose_failure_it_is_is_told_by_what_it_comes_of(error: Exception, expected: bool) -> None:
    outer = RuntimeError("the trainer failed")
    outer.__cause__ = error

    assert (is_infrastructure(error), is_infrastructure(outer)) == (expected, expected)


def test_a_context_is_no_cause() -> None:
    error = ValueError("something else, while a death was handled")
    error.__context__ = PartGone("a rank died")

    assert not is_infrastructure(error)
