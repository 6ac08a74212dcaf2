"""People, projects and runs as on the pages, and a real server that takes what is sent to it."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep

import pytest

from tests.webapp.interfaces.pages.conftest import ada, make_run, model_folder, project, user  # noqa: F401 (fixtures)


@dataclass
class Receiver:
    """`got`: (headers, body) of each POST. `status`, `location` and `delay` (seconds) say how it answers."""

    url: str = ""
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    status: int = 200
    location: str = ""
    delay: float = 0.0
    body: bytes = b"ok"


@pytest.fixture
def receiver(settings) -> Iterator[Receiver]:
    """A local server; the operator has allowed its address."""
    state = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
            if state.delay:
                sleep(state.delay)
            self.send_response(state.status)
            if state.location:
                self.send_header("Location", state.location)
            self.end_headers()
            self.wfile.write(state.body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/hook"
    settings.ALLOW_PRIVATE_HOSTS = [f"127.0.0.1:{server.server_port}"]
    settings.HEADROOM_URL = "https://headroom.example"
    yield state
    server.shutdown()
    server.server_close()
