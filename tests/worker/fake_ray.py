"""A small real HTTP server that speaks the part of Ray's REST API that the worker uses, and can be made to fail."""

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

LARGE_NODE = {
    "node_id": "large", "node_ip": "10.0.0.9", "state": "ALIVE", "is_head_node": True,
    "resources_total": {"CPU": 10_000.0, "GPU": 1000.0},
}  # fmt: skip


@dataclass
class FakeJob:
    submission: dict[str, Any]
    status: str = "PENDING"
    message: str = ""
    log: str = ""
    stops: int = 0


class FakeRay:
    """Jobs by submission id. `fail`, where set, is (status, text) for every request."""

    def __init__(self, token: str = "secret") -> None:
        self.token = token
        self.jobs: dict[str, FakeJob] = {}
        self.fail: tuple[int, str] | None = None
        self.refuse_submissions: tuple[int, str] | None = None
        self.nodes: list[dict[str, Any]] = [LARGE_NODE]
        self.groups: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.submitted: list[str] = []  # ids, one for each submission that was asked for
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, method: str, url: str, body: dict[str, Any]) -> tuple[int, Any]:
        path = urlparse(url).path
        self.requests.append(f"{method} {path}")
        if self.fail is not None:
            return self.fail
        if (method, path) == ("POST", "/api/jobs/"):
            return self._submit(body)
        if (method, path) == ("GET", "/api/jobs/"):
            return 200, [self._details(name) for name in list(self.jobs)] + [{"submission_id": None}]
        if path == "/api/v0/nodes":
            return 200, {"data": {"result": {"result": self.nodes}}}
        if path == "/api/v0/placement_groups":
            return 200, {"data": {"result": {"result": self.groups}}}
        if path == "/api/v0/logs/file":
            return self._log(parse_qs(urlparse(url).query))
        name, _, action = path.removeprefix("/api/jobs/").partition("/")
        if name not in self.jobs:
            return 404, f"Job {name} does not exist"
        job = self.jobs[name]
        if action == "stop":
            job.stops += 1
            return 200, {"stopped": True}
        return 200, self._details(name)

    def _details(self, name: str) -> dict[str, Any]:
        job = self.jobs[name]
        said = {"submission_id": name, "type": "SUBMISSION", "status": job.status, "message": job.message}
        return said | {"driver_node_id": "node-1", "job_id": f"ray-{name}"}

    def _submit(self, body: dict[str, Any]) -> tuple[int, Any]:
        if self.refuse_submissions is not None:
            return self.refuse_submissions
        name = body["submission_id"]
        self.submitted.append(name)
        if name in self.jobs:
            return 500, f"Traceback ...\nValueError: Job with submission_id {name} already exists."
        self.jobs[name] = FakeJob(body)
        return 200, {"submission_id": name}

    def _log(self, query: dict[str, list[str]]) -> tuple[int, Any]:
        name = query["filename"][0].removeprefix("job-driver-").removesuffix(".log")
        if name not in self.jobs or query["node_id"] != ["node-1"]:
            return 500, "no such file"
        return 200, "".join(self.jobs[name].log.splitlines(keepends=True)[-int(query["lines"][0]) :])

    def _handler(fake) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers["Content-Length"] or 0)
                body = json.loads(self.rfile.read(length) or b"{}")
                if self.headers["Authorization"] != f"Bearer {fake.token}":
                    status, answer = 401, "Unauthorized: Missing authentication token"
                else:
                    status, answer = fake.answer(self.command, self.path, body)
                data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                pass

        return Handler
