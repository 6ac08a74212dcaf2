"""Waiting with a name and an end: every wait says what it waits for, and gives up."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from training.errors import last_line

T = TypeVar("T")


class WaitTimeout(RuntimeError):
    """Something took too long; the message names it."""


class PartFailed(RuntimeError):
    """A part of the run failed; the message names the part and ends with its own last line."""


class Stopped(Exception):
    """The run was asked to stop while it waited."""


class Interrupted(RuntimeError):
    """The run was asked to end at once, whatever it waits for."""


@dataclass(frozen=True)
class Timeouts:
    """How long a run waits for its parts, seconds."""

    generation: float = 3600.0  # one call of the generator, and the next batch
    training: float = 3600.0  # one update
    evaluation: float = 3600.0
    transfer: float = 600.0  # new weights to the generator
    checkpoint: float = 3600.0
    closing: float = 30.0  # each step of an end


class Switchboard:
    """One event for "something has changed", one for "stop" and one for "failed"; waits end early on each.

    Tasks that nobody awaits are started by `watch`: their error becomes the error of every wait.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()
        self._failed = asyncio.Event()
        self._error: BaseException | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Ask everything to end."""
        self._stop.set()
        self.changed()

    def fail(self, error: BaseException) -> None:
        """Have every wait raise this error; the first one stays."""
        self._error = self._error or error
        self._failed.set()
        self.changed()

    def check(self) -> None:
        """Raise the error that `fail` was given, if any."""
        if self._error is not None:
            raise self._error

    def watch(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task whose error ends all waits."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._has_ended)
        return task

    def _has_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Stopped):
            self.fail(error)

    def changed(self) -> None:
        """Have every `until` look at its condition again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool], *, what: str, timeout: float | None = None) -> None:
        """Return when the condition holds. Raises Stopped, the error of `fail`, or WaitTimeout naming `what`."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            self.check()
            if self.is_stopping:
                raise Stopped
            if condition():
                return
            changed = self._changed
            try:
                async with asyncio.timeout_at(deadline):
                    await changed.wait()
            except TimeoutError:
                raise WaitTimeout(f"waited {timeout:g} s for {what}") from None

    async def result(
        self, awaitable: Awaitable[T], *, what: str, timeout: float | None, stoppable: bool = True
    ) -> T:
        """The awaitable's result. Raises Stopped, the error of `fail`, or after `timeout` seconds WaitTimeout.

        In each case the awaitable is cancelled. With `stoppable=False` a stop does not end it.
        """
        work = asyncio.ensure_future(awaitable)
        events = [self._failed, self._stop] if stoppable else [self._failed]
        signs = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait({work, *signs}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            self.check()
            if stoppable and self.is_stopping:
                raise Stopped
            raise WaitTimeout(f"waited {timeout or 0:g} s for {what}")
        finally:
            for future in (work, *signs):
                _give_up(future)


async def within(awaitable: Awaitable[T], *, what: str, timeout: float) -> T:
    """The awaitable's result; cancelled after `timeout` seconds, with a WaitTimeout that names `what`."""
    work = asyncio.ensure_future(awaitable)
    try:
        done, _ = await asyncio.wait({work}, timeout=timeout)
        if not done:
            raise WaitTimeout(f"waited {timeout:g} s for {what}")
        return work.result()
    finally:
        _give_up(work)


def begin_in_thread(call: Callable[[], T], name: str = "call") -> Future[T]:
    """Its result, from a thread that nothing waits for at the process's end, as those of a pool would be."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return future


async def in_thread(call: Callable[[], T], seconds: float) -> T:
    """The call's result, by `begin_in_thread`. TimeoutError if it is late.

    Not by `asyncio.wait_for`: before Python 3.12 that loses a cancellation which comes together with the result.
    """
    future = begin_in_thread(call)
    async with asyncio.timeout(seconds):
        return await asyncio.wrap_future(future)


def _give_up(future: "asyncio.Future[Any]") -> None:
    """Cancel what nobody waits for any more; whatever comes of it is of no interest."""
    if not future.done():
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        future.cancel()


@contextmanager
def blame(part: str) -> Iterator[None]:
    """Have errors name the part that they come from, e.g. "the trainer"."""
    try:
        yield
    except (PartFailed, WaitTimeout, Stopped):
        raise
    except Exception as error:
        raise PartFailed(f"{part} failed: {last_line(error)}") from error
