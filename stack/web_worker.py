"""gunicorn's threaded worker, which takes a thread for a request once it has arrived.

gunicorn's own takes the thread with the first byte: a few clients that send slowly hold all of them. Here the worker's
event loop receives (`stack.receiving`), and requests that are whole go to the threads; those that are longer than a
batch of records are uploads of files, and take half of the threads at most. What a client does not take at once of its
answer the event loop sends as well (`stack.sending`).
"""

import json
import os
import resource
import selectors
import socket
import threading
import time
from collections import deque
from concurrent import futures
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import TConn, ThreadWorker

from stack.environment import home
from stack.receiving import MOST_BODY, Broken, NotArrived, Receiving, Source
from stack.sending import Sending

PIECE = 64 * 1024  # bytes read at a time
MOST_ON_DISK = 256 * 1024 * 1024  # of bodies of which the application was not asked
LEAST_FREE = 1024 * 1024 * 1024  # of the disk, whatever the application allowed
LINGER_SECONDS = (
    1.0  # for the end of an answer; and, when the worker stops, for a request that may be under way
)
LOOK_SECONDS = 0.5  # between two looks for what is too late
SPARE_FILES = 200  # descriptors for all else than connections
TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
FOR_PROGRAMS = b"/api/"
BAD = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


class Worker(ThreadWorker):
    """`--worker-class stack.web_worker.Worker`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.receiving: dict[TConn, Receiving] = {}
        self.long_ones: set[TConn] = set()  # that have a thread
        self.waiting: deque[TConn] = deque()  # long ones that have none
        self.closing: dict[
            TConn, float
        ] = {}  # answered, until when the client may take the end of the answer
        self.sending: dict[TConn, futures.Future[Any]] = {}  # answered, and not all of it sent
        self.waits = threading.Semaphore(max(1, self.cfg.threads // 2))
        self.looked_at = 0.0
        self.here = threading.local()
        self.folder = home() / "receiving"

    def init_process(self) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.worker_connections = min(self.cfg.worker_connections, max(64, hard - SPARE_FILES))
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().init_process()

    def accept(self, listener: socket.socket) -> None:
        try:
            client, address = listener.accept()
        except OSError:  # gone again, taken by another process, or out of descriptors
            return
        self.nr_conns += 1
        conn = TConn(self.cfg, client, address, listener.getsockname())
        conn.sock = Sending(client, self.waits, str(self.folder))
        conn.source = Source()
        conn.parser = RequestParser(self.cfg, conn.source, address)
        conn.initialized = True
        self._receive(conn)

    def _receive(self, conn: TConn, first: bytes = b"") -> None:
        """Gather the next request of a connection, of which `first` is there already."""
        self._listen(conn, Receiving(str(self.folder)))
        if first:
            self._take(conn, first)

    def _listen(self, conn: TConn, received: Receiving) -> None:
        conn.sock.setblocking(False)
        self.receiving[conn] = received
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._readable, conn))

    def _readable(self, conn: TConn, sock: socket.socket) -> None:
        try:
            data = sock.recv(PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._take(conn, data)
        else:
            self._drop(conn)

    def _take(self, conn: TConn, data: bytes) -> None:
        received = self.receiving[conn]
        try:
            received.take(data)
        except Broken:
            return self._drop(conn, BAD)
        except OSError as error:
            self.log.error("a request could not be received: %s", error)
            return self._drop(conn, BUSY)
        if received.is_ready:
            self._hand_over(conn)
        elif received.expects:
            received.expects = False
            _send(conn.sock, GO_ON)
        return None

    def _hand_over(self, conn: TConn) -> None:
        self.poller.unregister(conn.sock)
        received = self.receiving.pop(conn)
        conn.source.give(received)
        if received.is_whole and received.received > MOST_BODY:
            self.waiting.append(conn)
            self._begin_long_ones()
        else:
            self.enqueue_req(conn)

    def _begin_long_ones(self) -> None:
        while self.waiting and len(self.long_ones) < max(1, self.cfg.threads // 2):
            conn = self.waiting.popleft()
            self.long_ones.add(conn)
            self.enqueue_req(conn)

    def on_client_socket_readable(self, conn: TConn, client: socket.socket) -> None:
        """A kept connection: its next request begins."""
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._receive(conn)
        self._readable(conn, client)

    def handle(self, conn: TConn) -> Any:
        """In a thread."""
        self.here.is_for_programs = conn.source.begins_with(FOR_PROGRAMS)
        try:
            return super().handle(conn)
        except NotArrived:
            return NotArrived

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """gunicorn ends a connection of whose body more than a little was left unread, which may have arrived."""
        if not conn.source.is_whole:
            req.force_close()
        return super().handle_request(req, conn) and conn.parser.finish_body()

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """What gunicorn itself refuses (a head that is too long, or none) is JSON where programs ask."""
        if not getattr(self.here, "is_for_programs", False):
            return super().handle_error(req, client, addr, exc)
        said = _Said()
        super().handle_error(req, said, addr, exc)
        if said.status:
            body = json.dumps({"error": {"code": "bad_request", "message": f"{said.reason}: {exc}"}}).encode()
            head = f"HTTP/1.1 {said.status} {said.reason}\r\nConnection: close\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
        return None

    def finish_request(self, conn: TConn, fs: futures.Future[Any]) -> None:
        self.long_ones.discard(conn)
        self._begin_long_ones()
        is_answered = not fs.cancelled() and fs.exception() is None
        if is_answered and fs.result() is NotArrived:
            conn.parser = RequestParser(self.cfg, conn.source, conn.client)
            self._listen(conn, conn.source.take_back())
        elif conn.sock.parts and is_answered:
            conn.sock.setblocking(False)
            self.sending[conn] = fs
            self.poller.register(conn.sock, selectors.EVENT_WRITE, partial(self._writable, conn))
        else:
            self._end_request(conn, fs)

    def _writable(self, conn: TConn, sock: Sending) -> None:
        try:
            has_all = sock.send_on()
        except OSError:
            return self._let_go(self.sending, conn)
        if has_all:
            self.poller.unregister(sock)
            self._end_request(conn, self.sending.pop(conn))
        return None

    def _end_request(self, conn: TConn, fs: futures.Future[Any]) -> None:
        if fs.cancelled() or fs.exception() is not None or not fs.result():
            self._close_gracefully(conn)
        elif rest := conn.parser.unreader.take_buffered() + conn.source.rest():
            self._receive(conn, rest)
        else:
            super().finish_request(conn, fs)

    def _close_gracefully(self, conn: TConn) -> None:
        """Say that the answer has ended, and wait in the event loop until the client has it: what closes at once may
        cut off the end of an answer where something of the request was not read."""
        try:
            conn.sock.setblocking(False)
            conn.sock.shutdown(socket.SHUT_WR)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._drain, conn))
        except (OSError, ValueError):
            return self._close(conn)
        self.closing[conn] = time.monotonic() + LINGER_SECONDS
        return None

    def _drain(self, conn: TConn, sock: socket.socket) -> None:
        try:
            if sock.recv(PIECE):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self._let_go(self.closing, conn)

    def _let_go(self, answered: dict[TConn, Any], conn: TConn) -> None:
        """End one of `sending` or `closing`."""
        del answered[conn]
        self.poller.unregister(conn.sock)
        self._close(conn)

    def murder_pending(self) -> None:
        """Called at each turn of the loop: end what comes too slowly."""
        super().murder_pending()
        now = time.monotonic()
        if now - self.looked_at < LOOK_SECONDS:
            return
        self.looked_at = now
        for conn in [conn for conn, each in self.receiving.items() if self._is_late(each, now)]:
            self._drop(conn, TIMEOUT if self.receiving[conn].has_begun else b"")
        while crowd := self._crowd():
            self._drop(min(crowd, key=lambda conn: self.receiving[conn].rate(now)), BUSY)
        for conn in [conn for conn in self.sending if conn.sock.deadline() < now]:
            self._let_go(self.sending, conn)
        for conn in [conn for conn, until in self.closing.items() if until < now]:
            self._let_go(self.closing, conn)

    def _is_late(self, received: Receiving, now: float) -> bool:
        is_idle = not self.alive and not received.has_begun and now - received.began > LINGER_SECONDS
        return is_idle or received.deadline() < now

    def _crowd(self) -> list[TConn]:
        """Of whose bodies there is too much on the disk: the slowest of them has to go."""
        on_disk = {conn: each for conn, each in self.receiving.items() if each.on_disk}
        allowed = [conn for conn, each in on_disk.items() if each.was_asked]
        disk = os.statvfs(self.folder)
        if allowed and disk.f_bavail * disk.f_frsize < LEAST_FREE:
            return allowed
        others = {conn: each.on_disk for conn, each in on_disk.items() if not each.was_asked}
        return list(others) if sum(others.values()) > MOST_ON_DISK else []

    def _drop(self, conn: TConn, answer: bytes = b"") -> None:
        """End a connection whose request is not whole."""
        self.poller.unregister(conn.sock)
        self.receiving.pop(conn).close()
        self._close(conn, answer)

    def _close(self, conn: TConn, answer: bytes = b"") -> None:
        if answer:
            _send(conn.sock, answer)
        self.nr_conns -= 1
        conn.source.close()
        conn.close()


class _Said:
    """In place of a client: what gunicorn would answer."""

    status, reason = "", ""

    def gettimeout(self) -> float:
        return 0.0

    def sendall(self, data: bytes) -> None:
        _, self.status, self.reason = data.split(b"\r\n", 1)[0].decode().split(" ", 2)


def _send(sock: socket.socket, answer: bytes) -> None:
    """A few bytes to a client that may be gone."""
    with suppress(OSError):
        sock.send(answer)
