"""A small real HTTP server that stores records as Headroom's API does, and can be made to fail or hang."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


class FakeServer:
    """Stores records by (run, attempt, seq). `refuse`, where set, decides on each request before it is stored."""

    def __init__(self, port: int = 0) -> None:
        self.records: dict[tuple[str, int, int], dict[str, Any]] = {}
        self.files: dict[tuple[str, str], bytes] = {}
        self.arrivals: list[tuple[str, int, int]] = []
        self.notices: list[tuple[str, dict[str, Any]]] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.tokens: set[str | None] = set()
        self.agents: set[str | None] = set()
        self.refuse: Callable[[str, dict[str, Any]], tuple[int, str] | None] = lambda path, body: None
        self.gather_seconds: dict[
            str, Any
        ] = {}  # by run: what answers to its batches say; older servers say nothing
        self.changed = threading.Condition()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._http.daemon_threads = True
        self.port: int = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def wait_for(self, condition: Callable[[], object], timeout: float = 10) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, timeout), (
                f"not within {timeout} s; requests: {self.requests[-3:]}"
            )

    def steps(self, run: str = "r1", attempt: int = 1) -> list[int]:
        return [
            record["step"] for (r, a, _), record in sorted(self.records.items()) if (r, a) == (run, attempt)
        ]

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.changed:
            self.requests.append((path, body))
            self.changed.notify_all()
        refused = self.refuse(path, body)
        with self.changed:
            if refused:
                status, message = refused
                return status, {"error": {"code": "refused", "message": message}}
            result = self._store(path.removeprefix("/api/v1/"), body)
            self.changed.notify_all()
            return 200, result

    def _store(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "runs":
            self.notices.append((path, body))
            return {"id": "made1"}
        _, run, what = path.split("/")
        if what != "records":
            self.notices.append((what, body))
            return {"id": run}
        keys = [(run, record["attempt"], record["seq"]) for record in body["records"]]
        new = [key for key in keys if key not in self.records]
        self.arrivals += keys
        self.records.update(zip(keys, body["records"], strict=True))
        asked = {"gather_seconds": self.gather_seconds[run]} if run in self.gather_seconds else {}
        return {"accepted": len(new), "duplicates": len(keys) - len(new), **asked}

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.tokens.add(self.headers["Authorization"])
                server.agents.add(self.headers["User-Agent"])
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = server.answer(self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                status, message = server.refuse(self.path, {}) or (200, "")
                data = json.dumps({"error": {"message": message}} if message else {}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_PUT(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                _, _, _, _, run, _, name = unquote(self.path).split("/", 6)
                refused = server.refuse(self.path, {})
                with server.changed:
                    server.requests.append((self.path, {}))
                    if not refused:
                        server.files[run, name] = content
                    server.changed.notify_all()
                status, message = refused or (201, "")
                data = json.dumps({"error": {"message": message}} if refused else {}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        return Handler
