"""A request as it arrives, byte by byte, before a thread of the web server is taken for it.

A client that sends slowly must cost no thread: the event loop of `stack.web_worker` gathers head and body here and
hands over what is whole; what came in chunks, as a body of known length. The application is asked with the beginning of
a long body, before the rest: it answers those who may not send it, and of others wants more than is there. What comes
too slowly ends: the head has HEAD_SECONDS, a body may be PATIENCE_SECONDS behind LEAST_RATE.
"""

import math
import re
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

HEAD_SECONDS = 10.0
PATIENCE_SECONDS = 20.0
LEAST_RATE = 4096  # bytes a second
MOST_HEAD = 128 * 1024  # gunicorn refuses one that is longer than its own limits, which are lower
MOST_BODY = 16 * 1024 * 1024 + 1024 * 1024  # a batch of records; longer ones are uploads
BEGINNING = 128 * 1024  # of an upload: the field against forged requests, and where the first file begins
IN_MEMORY = 64 * 1024  # of a request; what is more lies in a file without a name
MOST_FRAMING = 8  # bytes for each byte of the body; a chunk of one byte has five

END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*(?=\r\n)", re.IGNORECASE)
_FRAMED = re.compile(rb"\r\n(?:content-length|transfer-encoding)", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*(?=\r\n)", re.IGNORECASE)


class Broken(ValueError):
    """A body that is said to come in chunks, and does not."""


class NotArrived(SystemExit):
    """The application wants more of a body than is there. No Exception, so that nobody answers it; as one that ends
    without an error it is reported nowhere."""


class Chunks:
    """A body in chunks, decoded."""

    def __init__(self) -> None:
        self.has_ended = False
        self.has_more = False  # behind the body: where it begins the parser does not say
        self._pieces: list[bytes] = []
        self._left = IN_MEMORY  # bytes that are not of the body
        self._parser = HttpRequestParser(self)
        self._parser.feed_data(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")

    def decoded(self, data: bytes) -> bytes:
        """What of the body is in it. Raises Broken."""
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self.has_ended:
                raise Broken(str(error)) from error
            self.has_more = True
        found, self._pieces = b"".join(self._pieces), []
        self._left += (MOST_FRAMING + 1) * len(found) - len(data)
        if self._left < 0:
            raise Broken("next to nothing but extensions or trailers")
        return found

    def on_message_begin(self) -> None:
        self.has_more = self.has_ended

    def on_body(self, piece: bytes) -> None:
        if not self.has_ended:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        self.has_ended = True


@dataclass
class Receiving:
    """One request of one connection. `began` and `now` are of `time.monotonic`."""

    folder: str | None = None  # for what is too large for the memory
    began: float = field(default_factory=time.monotonic)
    head: bytearray = field(default_factory=bytearray)
    has_head: bool = False
    body: IO[bytes] | None = None
    chunks: Chunks | None = None
    received: int = 0  # bytes of the body, and of what came behind it
    length: int | None = None  # of the body; None: nobody knows yet
    expects: bool = False  # the client waits for a word before it sends the body
    ask_at: float = math.inf  # bytes of the body with which the application is asked
    was_asked: bool = False

    @property
    def is_whole(self) -> bool:
        return self.length is not None and self.received >= self.length

    @property
    def is_ready(self) -> bool:
        """Whether a thread may take it."""
        return self.is_whole or self.received >= self.ask_at

    @property
    def has_begun(self) -> bool:
        return bool(self.head)

    def take(self, data: bytes) -> None:
        """What has arrived now. Raises OSError where the disk does not take it, and Broken."""
        if self.has_head:
            self._add(data)
        else:
            self.head += data
            self._look_for_the_end(len(data))

    def _look_for_the_end(self, news: int) -> None:
        end = self.head.find(END, max(0, len(self.head) - news - len(END)))
        if end < 0:
            if len(self.head) > MOST_HEAD:
                self.length = 0  # gunicorn says what is wrong with it
            return
        rest = bytes(self.head[end + len(END) :])
        del self.head[end + len(END) :]
        self.has_head = True
        self._frame()
        self.expects = bool(_EXPECTS.search(self.head)) and not self.is_whole
        self._add(rest)

    def _frame(self) -> None:
        """How the body ends. What says it twice, or in words that make no sense, is for gunicorn to refuse."""
        is_said_once = len(_FRAMED.findall(self.head)) == 1
        if is_said_once and _CHUNKED.search(self.head) and b" HTTP/1.1\r\n" in self.head:
            self.chunks, self.ask_at = Chunks(), MOST_BODY
            return
        found = _LENGTH.search(self.head)
        self.length = int(found[1]) if is_said_once and found else 0
        if self.length > MOST_BODY:
            self.ask_at = BEGINNING

    def _add(self, data: bytes) -> None:
        if self.chunks is not None:
            data = self.chunks.decoded(data)
        if data:
            if self.body is None:
                self.body = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=self.folder)  # noqa: SIM115 - closed by `close`
            self.body.write(data)
            self.received += len(data)
        if self.chunks is not None and self.chunks.has_ended:
            self.length = self.received

    def go_on(self) -> None:
        """The application was asked, and wants more. Of what has no length it is asked again: it may be too long."""
        self.was_asked = True
        self.ask_at = math.inf if self.chunks is None else 2 * self.received

    def head_now(self) -> bytes:
        """As gunicorn reads it: what comes in chunks has a length, one byte more than is there until it has ended."""
        head = _EXPECTS.sub(b"", bytes(self.head))
        if self.chunks is None:
            return head
        length = self.received + 1 if self.length is None else self.length
        return _CHUNKED.sub(b"\r\nContent-Length: %d" % length, head)

    @property
    def on_disk(self) -> int:
        """Bytes."""
        return self.received if self.received > IN_MEMORY else 0

    def rate(self, now: float) -> float:
        """Bytes a second."""
        return self.received / (1.0 + now - self.began)

    def deadline(self) -> float:
        """When it is too late, of `time.monotonic`."""
        if not self.has_head:
            return self.began + HEAD_SECONDS
        return self.began + PATIENCE_SECONDS + self.received / LEAST_RATE

    def close(self) -> None:
        if self.body is not None:
            self.body.close()


class Source:
    """What gunicorn reads a connection's requests from, as from a socket: what was received. Raises NotArrived at the
    end of what is not whole."""

    def __init__(self) -> None:
        self._at_hand: Receiving | None = None
        self._head = b""

    @property
    def is_whole(self) -> bool:
        """And where the next request begins is known."""
        here = self._at_hand
        return here is not None and here.is_whole and not (here.chunks and here.chunks.has_more)

    def give(self, received: Receiving) -> None:
        """The next request, as far as it has arrived."""
        self._at_hand = received
        self._head = received.head_now()
        if received.body is not None:
            received.body.seek(0)

    def take_back(self) -> Receiving:
        """The same, to receive more of it."""
        received = self._at_hand
        assert received is not None
        self._at_hand = None
        if received.body is not None:
            received.body.seek(0, 2)
        received.go_on()
        return received

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
        if here.is_whole:
            return b""
        raise NotArrived

    def rest(self) -> bytes:
        """What came behind the request that was answered: the beginning of the next one."""
        here = self._at_hand
        data = here.body.read() if here and here.body is not None else b""
        self.close()
        return data

    def close(self) -> None:
        if self._at_hand is not None:
            self._at_hand.close()
        self._at_hand, self._head = None, b""
