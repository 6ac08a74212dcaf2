"""What is accepted though it is not kept: said once of each kind, until the next run begins."""

import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger("headroom")
MOST_WARNINGS = 100  # of a run
_said: set[str] = set()


def warn_once(kind: str, message: str) -> None:
    if kind not in _said and len(_said) < MOST_WARNINGS:
        _said.add(kind)
        log.warning("headroom: %s", message)


def forget() -> None:
    """A run begins: each kind is said once of it, too."""
    _said.clear()


def accepts(name: str, lost: str, answer: Any = None) -> Callable[..., Any]:
    """A function that takes anything, gives `answer`, and warns once of what is `lost`, where that is not empty."""

    def accepted(*args: Any, **kwargs: Any) -> Any:
        if lost:
            warn_once(name, lost)
        return answer

    accepted.__name__ = accepted.__qualname__ = name
    accepted.__doc__ = f"Accepted: {lost or 'there is nothing to do'}."
    return accepted
