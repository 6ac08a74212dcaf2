"""The hub cannot be reached from where tests run: a server of the tests stands in for it, or nobody does."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class HubHandler(BaseHTTPRequestHandler):
    """What every answer of the hub has in common; a subclass answers a path."""

    protocol_version = "HTTP/1.1"
    with_body = True

    def answer(self, path: str) -> None:
        """Answer by `send` or `send_file`, or not at all: then the hub says that there is no such repository."""
        raise NotImplementedError

    def do_HEAD(self) -> None:
        self.with_body = False
        self._answer()

    def do_GET(self) -> None:
        self.with_body = True
        self._answer()

    def _answer(self) -> None:
        path = unquote(self.path.partition("?")[0])
        self._sent = False
        if path == "/":
            return self.send(200, b"")
        self.answer(path)
        if not self._sent:
            self.send(404, b"", {"X-Error-Code": "RepoNotFound"})

    def send_file(self, content: bytes, commit: str) -> None:
        self.send(200, content, {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": commit})

    def send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self._sent = True
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.with_body:
            self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@contextmanager
def serving(handler: type[HubHandler]) -> Iterator[str]:
    """Address of a hub that answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def nobodys_address() -> str:
    """Address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
