"""A server that speaks the part of Ray's Jobs API that the worker uses, in a process of its own.

It takes every submission and notes when it came. Ray itself is left out: what is measured is our own work.
"""

import json
import multiprocessing
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import urlparse

import httpx

LOG = "step 1\nstep 2\n"


@dataclass(frozen=True)
class JobsServer:
    """A running one, at `address`."""

    address: str

    def arrivals(self) -> dict[str, float]:
        """Submission id -> when it was submitted, `time.time()`."""
        return httpx.get(f"{self.address}/arrivals", timeout=10).raise_for_status().json()

    def num_requests(self) -> int:
        """How many there were so far, those of this class not counted."""
        return httpx.get(f"{self.address}/requests", timeout=10).raise_for_status().json()


@contextmanager
def jobs_server(known: Iterable[str] = (), *, status: str = "RUNNING") -> Iterator[JobsServer]:
    """One that has jobs of these ids already; every job is in the same state."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(theirs, list(known), status))
    process.start()
    try:
        yield JobsServer(f"http://127.0.0.1:{ours.recv()}")
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection, known: list[str], status: str) -> None:
    jobs = {name: _job(name, status) for name in known}
    arrivals: dict[str, float] = {}
    requests = [0]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept, as Ray keeps them
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
            path = urlparse(self.path).path.rstrip("/")
            name = path.removeprefix("/api/jobs/")
            if path in ("/arrivals", "/requests"):
                return self._answer(arrivals if path == "/arrivals" else requests[0])
            requests[0] += 1
            if path == "/api/jobs" and self.command == "POST":
                arrivals[body["submission_id"]] = time.time()
                jobs[body["submission_id"]] = _job(body["submission_id"], status)
                return self._answer({"submission_id": body["submission_id"]})
            if path == "/api/jobs":
                return self._answer(list(jobs.values()))
            if path == "/api/v0/logs/file":
                return self._answer(LOG)
            if name in jobs:
                return self._answer(jobs[name])
            return self._answer("no such job", 404)

        do_POST = do_GET

        def _answer(self, content: Any, code: int = 200) -> None:
            data = (content if isinstance(content, str) else json.dumps(content)).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    pipe.send(server.server_address[1])
    server.serve_forever()


def _job(name: str, status: str) -> dict[str, Any]:
    return {
        "type": "SUBMISSION",
        "submission_id": name,
        "status": status,
        "message": "",
        "driver_node_id": "n1",
    }
