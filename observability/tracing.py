"""Traces, where OTEL_EXPORTER_OTLP_ENDPOINT names a collector. Without it every function here does nothing, and
OpenTelemetry is not imported.

    with tracing.span("dispatch", run=run.pk):
        variables["TRACEPARENT"] = tracing.traceparent()
"""

import functools
import logging
import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from observability.otel import Traces

log = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PARENT_VARIABLE = "TRACEPARENT"
Kind = Literal["internal", "server", "client", "producer", "consumer"]
Value = str | int | float | bool


class Span:
    """What a block is told of its span: this one, of no trace, takes everything and keeps nothing."""

    def set(self, **attributes: Value) -> None:
        """Attributes that are known only now."""

    def rename(self, name: str) -> None:
        """Where the name is known only now."""

    def failed(self, kind: str) -> None:
        """It did not go well; `kind` is a word, never a message, which may hold anything."""


_NO_SPAN = nullcontext(Span())


def span(
    name: str, *, kind: Kind = "internal", parent: str | None = None, **attributes: Value
) -> AbstractContextManager[Span]:
    """A span around the block, child of the one that is open here, or of `parent`, a W3C traceparent.

    An exception marks it as failed, with its type, and goes on.
    """
    traces = _traces()
    return _NO_SPAN if traces is None else traces.span(name, kind, parent, attributes)


def past(name: str, began: float, ended: float, **attributes: Value) -> None:
    """A span that is over: seconds since 1970, child of the one that is open here."""
    traces = _traces()
    if traces is not None:
        traces.past(name, began, ended, attributes)


def traceparent() -> str:
    """The open span for whoever goes on elsewhere (W3C Trace Context); empty without one."""
    traces = _traces()
    return "" if traces is None else traces.traceparent()


def ids() -> dict[str, str]:
    """trace_id and span_id of the open span, for log lines."""
    traces = _traces()
    return {} if traces is None else traces.ids()


def flush(seconds: float = 2.0) -> None:
    """Send what is finished, before a process ends in a way that runs no exit handlers."""
    traces = _traces()
    if traces is not None:
        traces.flush(seconds)


def is_on() -> bool:
    """Whether spans go anywhere."""
    return _traces() is not None


def _traces() -> "Traces | None":
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    return _begun(os.getpid())


@functools.lru_cache(maxsize=1)
def _begun(pid: int) -> "Traces | None":
    """Of this process: after a fork a child has its own."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from observability.otel import Traces
    except ImportError as error:
        log.warning("no traces are sent: %s is not installed here", error.name)
        return None
    return Traces()
