"""The outermost layer of each request: its id, its line in the log, what it counts for, its span."""

import logging
import time
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse

from observability import context, logs
from webapp.pages.permissions import PUBLIC

log = logging.getLogger("webapp.requests")


class Observed:
    """Answers `X-Request-ID`: the caller's own, where it sent one that can be used, else a new one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = context.accepted_request_id(request.headers.get(context.REQUEST_HEADER))
        began = time.perf_counter()
        with context.bound(request_id=request_id):
            response = self.get_response(request)
            note_answer(request, response, time.perf_counter() - began)
        response[context.REQUEST_HEADER] = request_id
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> None:
        """From here on it is known which run is meant."""
        context.add(run=kwargs.get("run_id"))


def note_answer(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    """One line for each request, where gunicorn does not write it."""
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
    if match and match.view_name not in PUBLIC:
        fields["path"] = request.path
    return fields
