"""A request as it arrives, byte by byte, before a thread of the web server is taken for it. Standard library only.

A client that sends slowly must cost no thread: the event loop of `stack.web_worker` gathers head and body here and
hands over what is whole. What comes too slowly ends: the head has HEAD_SECONDS, a body may be PATIENCE_SECONDS behind
LEAST_RATE.
"""

import re
import socket
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO

HEAD_SECONDS = 10.0
PATIENCE_SECONDS = 20.0
LEAST_RATE = 4096  # bytes a second
SILENCE_SECONDS = 10.0  # of a client that a thread already reads from
MOST_HEAD = 128 * 1024  # gunicorn refuses one that is longer than its own limits, which are lower
MOST_BODY = (
    16 * 1024 * 1024 + 1024 * 1024
)  # a batch of records; longer ones are read by a thread as they come
IN_MEMORY = 64 * 1024  # of a request; what is more lies in a file without a name

END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)


@dataclass
class Receiving:
    """One request of one connection. `began` and `now` are of `time.monotonic`."""

    folder: str | None = None  # for what is too large for the memory
    began: float = field(default_factory=time.monotonic)
    head: bytearray = field(default_factory=bytearray)
    body: IO[bytes] | None = None
    received: int = 0  # bytes of the body, and of what came behind it
    length: int | None = None  # of the body; None: the head has not ended
    is_long: bool = False  # a thread has to read the rest
    expects: bool = False  # the client waits for a word before it sends the body

    @property
    def is_whole(self) -> bool:
        """Whether a thread may take it."""
        return self.is_long or (self.length is not None and self.received >= self.length)

    @property
    def has_begun(self) -> bool:
        return bool(self.head)

    def take(self, data: bytes) -> None:
        """What has arrived now. Raises OSError where the disk does not take it."""
        if self.length is None:
            self.head += data
            self._look_for_the_end(len(data))
        else:
            self._add(data)

    def _look_for_the_end(self, news: int) -> None:
        end = self.head.find(END, max(0, len(self.head) - news - len(END)))
        if end < 0:
            if len(self.head) > MOST_HEAD:
                self.length, self.is_long = 0, True  # gunicorn says what is wrong with it
            return
        rest = bytes(self.head[end + len(END) :])
        del self.head[end + len(END) :]
        lengths = _LENGTH.findall(self.head)
        self.length = int(lengths[0]) if len(lengths) == 1 else 0
        self.is_long = self.length > MOST_BODY or bool(_CHUNKED.search(self.head))
        self.expects = bool(_EXPECTS.search(self.head)) and not self.is_long
        self._add(rest)

    def _add(self, data: bytes) -> None:
        if not data:
            return
        if self.body is None:
            self.body = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=self.folder)  # noqa: SIM115 - closed by `close`
        self.body.write(data)
        self.received += len(data)

    @property
    def on_disk(self) -> int:
        """Bytes that it may still take of the disk, as it says itself."""
        length = self.length or 0
        return 0 if self.is_long or length <= IN_MEMORY else length

    def deadline(self) -> float:
        """When it is too late, of `time.monotonic`."""
        if self.length is None:
            return self.began + HEAD_SECONDS
        return self.began + PATIENCE_SECONDS + self.received / LEAST_RATE

    def close(self) -> None:
        if self.body is not None:
            self.body.close()


class Source:
    """What gunicorn reads a connection's requests from, as from a socket: first what was received, then the socket.

    From the socket only a thread reads, the rest of a long body; it waits SILENCE_SECONDS for the next byte, and no
    longer than `Receiving.deadline`. Raises TimeoutError then.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._at_hand: Receiving | None = None
        self._head = b""

    def give(self, received: Receiving) -> None:
        """The next request, as far as it has arrived."""
        self._at_hand = received
        self._head = bytes(received.head)
        if received.body is not None:
            received.body.seek(0)

    def begins_with(self, path: bytes) -> bool:
        """Whether the request is for an address that begins so."""
        return self._head[:4096].partition(b" ")[2].startswith(path)

    def recv(self, size: int) -> bytes:
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        if (here := self._at_hand) is None:
            return b""
        if here.body is not None and (data := here.body.read(size)):
            return data
        if not here.is_long:
            return b""
        data = self._from_socket(here, size)
        here.received += len(data)
        return data

    def _from_socket(self, here: Receiving, size: int) -> bytes:
        left = here.deadline() - time.monotonic()
        if left <= 0:
            raise TimeoutError("the body came too slowly")
        self.sock.settimeout(min(left, SILENCE_SECONDS))
        try:
            return self.sock.recv(size)
        finally:
            self.sock.settimeout(None)

    def rest(self) -> bytes:
        """What came behind the request that was answered: the beginning of the next one."""
        here, self._at_hand = self._at_hand, None
        data = self._head
        self._head = b""
        if here is not None:
            data += here.body.read() if here.body is not None else b""
            here.close()
        return data

    def gettimeout(self) -> float | None:
        return self.sock.gettimeout()

    def settimeout(self, seconds: float | None) -> None:
        self.sock.settimeout(seconds)
