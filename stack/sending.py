"""An answer as it leaves, after the thread that made it has gone on to the next request. Standard library only.

A client that takes its answer slowly must cost no thread: what the socket does not take at once is kept here, and the
event loop of `stack.web_worker` sends it. A client may take nothing for SILENCE_SECONDS, and no less than LEAST_RATE.
"""

import errno
import os
import select
import socket
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import IO, Any

from stack.receiving import IN_MEMORY, LEAST_RATE

SILENCE_SECONDS = 60.0
PIECE = 256 * 1024  # bytes sent at a time
MOST_KEPT = 16 * 1024 * 1024  # of an answer that is made as it is sent; then its thread waits for the client
MOST_ON_DISK = 256 * 1024 * 1024  # of it, where too many threads wait already


@dataclass
class _Part:
    """What lies in a file from `offset` to `end`."""

    file: IO[bytes]
    offset: int
    end: int
    is_ours: bool  # it may grow

    def piece(self) -> bytes:
        self.file.seek(self.offset)
        return self.file.read(min(PIECE, self.end - self.offset))


class Sending:
    """In place of a connection's socket, as gunicorn answers on it; all else is the socket's own.

    waits: of the threads that may wait for clients.
    """

    def __init__(self, sock: socket.socket, waits: threading.Semaphore, folder: str | None = None) -> None:
        self.sock, self._waits, self._folder = sock, waits, folder
        self.parts: deque[_Part] = deque()  # not sent yet
        self._began, self._sent, self._last = 0.0, 0, 0.0  # since the client fell behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sock, name)

    def sendall(self, data: bytes) -> None:
        """Raises ConnectionResetError where the client takes too little of a long answer."""
        rest = memoryview(data)
        if not self.parts:
            rest = rest[self._taken(rest) :]
        if rest:
            self._keep(rest)

    def sendfile(self, file: IO[bytes], offset: int = 0, count: int | None = None) -> int:
        """Of a file on the disk, which may be closed meanwhile."""
        kept = os.fdopen(os.dup(file.fileno()), "rb", buffering=0)
        end = os.fstat(kept.fileno()).st_size if count is None else offset + count
        self._add(_Part(kept, offset, end, is_ours=False))
        self.send_on()
        return end - offset

    def send_on(self) -> bool:
        """One more piece, if the client takes it; whether it has all now. Raises OSError."""
        if self.parts:
            part = self.parts[0]
            piece = part.piece()
            if not piece and part.offset < part.end:
                raise OSError("the file has become shorter")
            part.offset += self._taken(piece)
            if part.offset >= part.end:
                self.parts.popleft().file.close()
        return not self.parts

    def deadline(self) -> float:
        """When it is too late, of `time.monotonic`."""
        return SILENCE_SECONDS + min(self._last, self._began + self._sent / LEAST_RATE)

    def close(self) -> None:
        while self.parts:
            self.parts.popleft().file.close()
        self.sock.close()

    def _taken(self, data: bytes | memoryview) -> int:
        """How much of it the socket has taken without waiting."""
        timeout = self.sock.gettimeout()
        self.sock.setblocking(False)
        try:
            taken = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            taken = 0
        finally:
            self.sock.settimeout(timeout)
        if taken:
            self._sent, self._last = self._sent + taken, time.monotonic()
        return taken

    def _add(self, part: _Part) -> None:
        if not self.parts:
            self._began = self._last = time.monotonic()
            self._sent = 0
        self.parts.append(part)

    def _keep(self, data: memoryview) -> None:
        if not self.parts or not self.parts[-1].is_ours:
            file = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=self._folder)  # noqa: SIM115 - closed once it is sent
            self._add(_Part(file, 0, 0, is_ours=True))
        part = self.parts[-1]
        part.file.seek(part.end)
        part.file.write(data)
        part.end += len(data)
        kept = part.end - part.offset
        if kept > MOST_KEPT and self._waits.acquire(blocking=False):
            try:
                self._wait()
            finally:
                self._waits.release()
        elif kept > MOST_ON_DISK:
            self._give_up()

    def _wait(self) -> None:
        """Until the client has taken what is kept."""
        ready = select.poll()
        ready.register(self.sock, select.POLLOUT)
        while not self.send_on():
            left = self.deadline() - time.monotonic()
            if left <= 0 or not ready.poll(1000 * left):
                self._give_up()

    def _give_up(self) -> None:
        self.close()
        raise ConnectionResetError(errno.ECONNRESET, "the client takes its answer too slowly")
