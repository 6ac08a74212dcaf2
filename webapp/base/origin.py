"""What a click hands on to whoever goes on with it: its request id, and the span that it was in.

HTTP request -> header of the Celery message -> row of the outbox -> environment of the job
"""

from collections.abc import Mapping

from observability import context, tracing

TRACE_HEADER = "traceparent"
MAX_TRACEPARENT = 55  # of W3C Trace Context, version 00


def headers() -> dict[str, str]:
    """For a Celery message; empty where nothing is known."""
    return _known({"request_id": context.request_id(), TRACE_HEADER: tracing.traceparent()})


def columns() -> dict[str, str]:
    """For a row of the outbox, which a worker may take long after the message was lost."""
    return {"request_id": context.request_id(), "traceparent": tracing.traceparent()[:MAX_TRACEPARENT]}


def variables(request_id: str) -> dict[str, str]:
    """For a job: the ids of the row, and the span that hands it over."""
    return _known({context.REQUEST_VARIABLE: request_id, tracing.PARENT_VARIABLE: tracing.traceparent()})


def _known(found: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in found.items() if value}
