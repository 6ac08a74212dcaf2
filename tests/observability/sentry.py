"""A small receiver of Sentry's envelopes."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import brotli


class Sentry:
    """Use with `with`; `dsn` is for SENTRY_DSN, `events` what was reported."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.raw: list[str] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.dsn = f"http://publickeyofproject@127.0.0.1:{self._http.server_address[1]}/1"

    def __enter__(self) -> "Sentry":
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        sentry = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                unpack = {"gzip": gzip.decompress, "br": brotli.decompress}
                body = unpack.get(self.headers.get("Content-Encoding"), bytes)(body)
                sentry.raw.append(body.decode())
                lines = body.decode().splitlines()[1:]
                for header, item in zip(lines[::2], lines[1::2], strict=False):
                    if json.loads(header).get("type") == "event":
                        sentry.events.append(json.loads(item))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: Any) -> None: ...

        return Handler
