"""Runs end as their process does, where nobody says `finish`: at its exit, by an exception, or by SIGTERM.

An exception that nobody caught and `sys.exit` with another status than 0 make a run failed, Ctrl-C and SIGTERM make it
cancelled. A process that handles SIGTERM itself goes on doing so; in others the signal ends the process as ever, once
the server was told, or after a few seconds. What the server cannot be told by then waits in the journal.
"""

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

WAIT_SECONDS = 5.0  # for the server, of all runs together

Outcome = tuple[str, str]  # state, message
SUCCEEDED: Outcome = ("succeeded", "")
_open: dict[Callable[..., Any], None] = {}  # `finish` of the runs that have not ended, in order
_outcome = SUCCEEDED
_is_watching = False


def watch(finish: Callable[..., Any]) -> None:
    """Have `finish(state, message, timeout)` called when the process ends."""
    _open[finish] = None
    _install()


def forget(finish: Callable[..., Any]) -> None:
    """It has ended."""
    _open.pop(finish, None)


def outcome_of(error: BaseException | None) -> Outcome:
    """How a run ends whose training an exception has left."""
    if error is None:
        return SUCCEEDED
    if isinstance(error, KeyboardInterrupt):
        return "cancelled", "interrupted"
    if isinstance(error, SystemExit):
        return _of_status(error.code)
    return "failed", f"{type(error).__name__}: {error}"


def _of_status(code: Any) -> Outcome:
    return SUCCEEDED if code is None or code == 0 else ("failed", f"the process ended with status {code}")


def finish_all(state: str, message: str) -> None:
    """End the open runs, all at the same time."""
    until, left = time.monotonic() + WAIT_SECONDS, list(_open)
    for finish in left:
        finish(state, message, 0)
    for finish in left:
        finish(state, message, max(0.0, until - time.monotonic()))


def _install() -> None:
    global _is_watching
    if not _is_watching:
        _is_watching = True
        atexit.register(lambda: finish_all(*_outcome))
        sys.excepthook = _noting_errors(sys.excepthook)
        sys.exit = _noting_status(sys.exit)
        os.register_at_fork(after_in_child=_leave_child_alone)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def _noting_errors(hook: Callable[..., Any]) -> Callable[..., Any]:
    def noting(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        global _outcome
        if not hasattr(sys, "ps1"):  # where a person types, the process goes on
            _outcome = outcome_of(error)
        hook(kind, error, trace)

    return noting


def _noting_status(leave: Callable[..., Any]) -> Callable[..., Any]:
    """The exception that `sys.exit` raises is gone by the time the process ends."""

    def noting(status: Any = None, /) -> None:
        global _outcome
        if threading.current_thread() is threading.main_thread():
            _outcome = _of_status(status)
        leave(status)

    return noting


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """In a thread, because the trainer may have been interrupted while it holds a lock of ours."""
    telling = threading.Thread(target=finish_all, args=("cancelled", "stopped by SIGTERM"), daemon=True)
    telling.start()
    telling.join(WAIT_SECONDS + 1)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _leave_child_alone() -> None:
    """A forked process has no run of ours, and dies of SIGTERM at once."""
    _open.clear()
    if signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
