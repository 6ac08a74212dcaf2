"""A worker's own /metrics: on a machine without a web server nobody else could say what its processes counted."""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST

from webapp.operation.observing.exposition import counted, refused

log = logging.getLogger(__name__)
PORT, HOST = "HEADROOM_METRICS_PORT", "HEADROOM_METRICS_HOST"


def wanted_address() -> tuple[str, int] | None:
    """Host and port by the variables; None without a port. Raises ValueError."""
    text = os.environ.get(PORT, "").strip()
    if not text:
        return None
    if not text.isdecimal() or not 0 <= int(text) < 65536:
        raise ValueError(f"{PORT} must be a port, not {text!r}")
    return os.environ.get(HOST) or "127.0.0.1", int(text)


def serve(host: str, port: int) -> WSGIServer:
    """Answer in a thread, one scrape after the other. Raises OSError where the port is taken."""
    server = make_server(host, port, answer, handler_class=_Quiet)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    log.info("metrics at http://%s:%s/metrics", host, server.server_port)
    return server


def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The door is that of the web server's /metrics; what is asked of the database stays there."""
    request = WSGIRequest(environ)
    response = refused(request) if request.path == "/metrics" else HttpResponse("not here\n", status=404)
    if response is None:
        response = HttpResponse(counted(), content_type=CONTENT_TYPE_LATEST)
    start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
    return [response.content]


class _Quiet(WSGIRequestHandler):
    timeout = 5.0  # seconds for a caller who says nothing

    def log_message(self, *_: Any) -> None:
        """A scrape is no news."""
