"""deploy/docker/health.py against a real server that answers what /healthz may answer."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from stack.environment import ROOT
from stack.ports import free_port

HEALTH = ROOT / "deploy" / "docker" / "health.py"


class Answering(HTTPServer):
    status, body = 200, "{}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Answering) and self.path.startswith("/healthz")
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.body.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[Answering]:
    server = Answering(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ask(part: str, where: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(HEALTH), part, where], capture_output=True, text=True, timeout=30
    )
    return done.returncode, done.stderr.strip()


def url(server: Answering) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def test_a_web_server_is_well_while_others_are_not(web: Answering) -> None:
    web.body = json.dumps(
        {"status": "degraded", "database": "ok", "worker": "does not answer", "beat": "late"}
    )

    assert ask("web", url(web)) == (0, "")
    assert ask("beat", url(web)) == (1, "beat: late")


def test_a_web_server_without_its_database_lives_and_is_not_ready(web: Answering) -> None:
    web.status, web.body = 503, json.dumps({"status": "failing", "database": "does not answer"})
    assert ask("web", url(web)) == (1, "database: does not answer")

    web.status, web.body = 200, json.dumps({"status": "ok"})
    assert ask("live", url(web)) == (0, "")


def test_beat_is_well_when_its_rounds_end(web: Answering) -> None:
    web.body = json.dumps({"status": "ok", "beat": "ok"})

    assert ask("beat", url(web)) == (0, "")


@pytest.mark.parametrize(("status", "body"), [(500, "{}"), (200, "<html>"), (400, "Bad Request")])
def test_what_is_no_answer_of_ours_is_not_well(web: Answering, status: int, body: str) -> None:
    web.status, web.body = status, body

    assert ask("web", url(web))[0] == 1


def test_a_server_that_is_away_is_named() -> None:
    status, said = ask("web", address := f"http://127.0.0.1:{free_port()}")

    assert status == 1 and said.startswith(address)


def test_a_worker_is_well_once_it_takes_tasks(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    assert ask("worker", str(ready)) == (1, f"{ready} is not there yet")
    ready.touch()
    assert ask("worker", str(ready)) == (0, "")
