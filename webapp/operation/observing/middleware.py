"""The outermost layer of each request: its id, its line in the log, what it counts for, its span."""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from django.http import HttpRequest, HttpResponse

from observability import context, logs, tracing
from webapp.base import metrics, task_queue
from webapp.interfaces.routes import EVERYBODY, need_of

log = logging.getLogger("webapp.requests")


class Observed:
    """Answers `X-Request-ID`: the caller's own, where it sent one that can be used, else a new one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = context.accepted_request_id(request.headers.get(context.REQUEST_HEADER))
        began = time.perf_counter()
        with context.bound(request_id=request_id), span_of(request) as span:
            response = self.get_response(request)
            tell(span, request, response)
            note_answer(request, response, time.perf_counter() - began)
        response[context.REQUEST_HEADER] = request_id
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> None:
        """From here on it is known which run is meant."""
        context.add(run=kwargs.get("run_id"))


def span_of(request: HttpRequest) -> AbstractContextManager[tracing.Span]:
    """Of the caller's trace, where it says one; nothing where no traces are sent."""
    method = request.method or ""
    parent = request.headers.get(task_queue.TRACE_HEADER)
    return tracing.span(method, kind="server", parent=parent, http_method=method)


def tell(span: tracing.Span, request: HttpRequest, response: HttpResponse) -> None:
    """What is known of a request only at its end."""
    span.set(http_status=response.status_code)
    if request.resolver_match:
        route = f"/{request.resolver_match.route}"
        span.rename(f"{request.method} {route}")
        span.set(http_route=route)
    if response.status_code >= 500:
        span.failed(str(response.status_code))


def note_answer(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    """What it counts for; and its line in the log, where gunicorn does not write it."""
    match = request.resolver_match
    metrics.note_request(match.view_name if match else "", request.method, response.status_code, seconds)
    if logs.is_json():
        fields = line_of(request, response, seconds)
        log.info("%s %s %s", fields["method"], fields["route"], fields["status"], extra={"fields": fields})


def line_of(request: HttpRequest, response: HttpResponse, seconds: float) -> dict[str, Any]:
    """What a log store is told of a request. Never its query; and not its path where that is a key, as in links."""
    match = request.resolver_match
    fields: dict[str, Any] = {
        "method": request.method,
        "route": f"/{match.route}" if match else "",
        "status": response.status_code,
        "milliseconds": round(1000 * seconds, 1),
    }
    if match and need_of(request).read is not EVERYBODY:
        fields["path"] = request.path
    return fields
