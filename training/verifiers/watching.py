"""What a sandbox sees of a running child from outside: bounded output, and counts from /proc."""

import os
import select
import selectors
import time
from contextlib import suppress
from pathlib import Path
from typing import Any


class Bounded:
    """The reading end of an output, and the first so many bytes of it."""

    def __init__(self, pipe: Any, limit_kib: int) -> None:
        self._fd = pipe.fileno() if pipe else None
        self._limit, self._data = limit_kib * 1024, bytearray()
        self.too_much = ""
        if self._fd is not None:
            os.set_blocking(self._fd, False)

    def register(self, selector: selectors.BaseSelector) -> None:
        """Watch it, if it is read here at all."""
        if self._fd is not None:
            selector.register(self._fd, selectors.EVENT_READ, self)

    def read(self, selector: selectors.BaseSelector | None = None) -> None:
        """Take what is there now, at most one byte more than the limit."""
        while self._fd is not None and not self.too_much:
            try:
                data = os.read(self._fd, min(65536, self._limit + 1 - len(self._data)))
            except BlockingIOError:
                return
            if not data:
                if selector:
                    selector.unregister(self._fd)
                return
            self._data += data
            if len(self._data) > self._limit:
                self.too_much = f"wrote more than {self._limit // 1024} KiB"

    def text(self) -> str:
        """What there is of it."""
        return bytes(self._data[: self._limit]).decode("utf-8", "replace")


def has_data(file: int, deadline: float) -> bool:
    """Whether there is something to read, or its end, before the deadline. select(2) ends at file 1024."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def num_threads(pid: int) -> int:
    """Of one process; 0 where that cannot be known."""
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/task"))
    return 0


def num_tasks_of_this_user() -> int:
    """Processes and threads, as RLIMIT_NPROC counts them."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.stat().st_uid == os.getuid():
                count += len(os.listdir(process / "task"))
    return count
