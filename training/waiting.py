"""Waiting with a name and an end: every wait says what it waits for, and gives up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class WaitTimeout(RuntimeError):
    """Something took too long; the message names it."""


class Stopped(Exception):
    """The run was asked to stop while it waited."""


class Switchboard:
    """One event for "something has changed" and one for "stop"; waits end early on either."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Ask everything to end."""
        self._stop.set()
        self.changed()

    def changed(self) -> None:
        """Have every `until` look at its condition again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], *, what: str, timeout: float | None = None) -> None:
        """Return when the condition holds. Raises Stopped, or WaitTimeout naming `what`."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            if self.is_stopping:
                raise Stopped
            if condition():
                return
            changed = self._changed
            try:
                await asyncio.wait_for(changed.wait(), None if deadline is None else deadline - loop.time())
            except TimeoutError:
                raise WaitTimeout(f"waited {timeout:.0f} s for {what}") from None

    async def result(self, awaitable: Awaitable[T], *, what: str, timeout: float) -> T:
        """The awaitable's result. Raises Stopped (the awaitable is cancelled) or WaitTimeout naming `what`."""
        work = asyncio.ensure_future(awaitable)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({work, stop}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            if stop.done():
                raise Stopped
            raise WaitTimeout(f"waited {timeout:.0f} s for {what}")
        finally:
            stop.cancel()
            if not work.done():
                work.cancel()
