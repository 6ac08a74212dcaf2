"""Waiting for something that another process does."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 30.0, what: str = "") -> None:
    """Ask again and again until `condition` holds; AssertionError after `seconds`, with its last answer."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or condition} (last: {answer!r})"
        time.sleep(0.05)
