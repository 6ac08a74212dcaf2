"""Spans of this process, sent by OTLP in the background. Imported only where traces are wanted."""

import atexit
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from observability import context, logs
from observability.tracing import Kind, Span, Value

log = logging.getLogger(__name__)

NANOSECONDS = 1_000_000_000
EXIT_SECONDS = 2.0  # for the last spans of a process
_W3C = TraceContextTextMapPropagator()


class RealSpan(Span):
    """A span that is kept."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, **attributes: Value) -> None:
        self._span.set_attributes(_named(attributes))

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def failed(self, kind: str) -> None:
        self._span.set_status(Status(StatusCode.ERROR))
        self._span.set_attribute("error.type", kind)


class SaidOnce(SpanExporter):
    """Says once that the collector does not take spans, and once that it does again: OpenTelemetry would say it every
    few seconds, on the pages of runs."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter, self._is_away = exporter, False
        for chatty in ("opentelemetry.exporter", "opentelemetry.sdk"):
            logging.getLogger(chatty).setLevel(logging.CRITICAL)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See SpanExporter."""
        result = self._exporter.export(spans)
        is_away = result is not SpanExportResult.SUCCESS
        if is_away and not self._is_away:
            log.warning("the collector takes no spans now; what is not sent in time is lost")
        elif self._is_away and not is_away:
            log.info("the collector takes spans again")
        self._is_away = is_away
        return result

    def shutdown(self) -> None:
        """See SpanExporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """See SpanExporter."""
        return self._exporter.force_flush(timeout_millis)


class Traces:
    """A provider of its own, not the process-wide one: Ray and vLLM have theirs."""

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        part = logs.part_of(sys.argv)
        name = os.environ.get("OTEL_SERVICE_NAME") or f"headroom-{part}"
        resource = Resource.create({"service.name": name})
        self._provider = TracerProvider(
            resource=resource, shutdown_on_exit=False
        )  # it could wait for a minute
        atexit.register(self.flush, EXIT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(SaidOnce(exporter or otlp_exporter())))
        self._tracer = self._provider.get_tracer("headroom")

    @contextmanager
    def span(
        self, name: str, kind: Kind, parent: str | None, attributes: Mapping[str, Value]
    ) -> Iterator[Span]:
        """See `tracing.span`."""
        with self._tracer.start_as_current_span(
            name,
            context=remote(parent),
            kind=SpanKind[kind.upper()],
            attributes=_of_here(attributes),
            record_exception=False,  # a message may hold a secret
            set_status_on_exception=False,
        ) as opened:
            made = RealSpan(opened)
            try:
                yield made
            except Exception as error:
                made.failed(type(error).__name__)
                raise

    def past(self, name: str, began: float, ended: float, attributes: Mapping[str, Value]) -> None:
        """See `tracing.past`."""
        span = self._tracer.start_span(
            name, start_time=int(began * NANOSECONDS), attributes=_of_here(attributes)
        )
        span.end(int(ended * NANOSECONDS))

    def traceparent(self) -> str:
        """See `tracing.traceparent`."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier.get("traceparent", "")

    def ids(self) -> dict[str, str]:
        """See `tracing.ids`."""
        found = trace.get_current_span().get_span_context()
        if not found.is_valid:
            return {}
        return {"trace_id": f"{found.trace_id:032x}", "span_id": f"{found.span_id:016x}"}

    def flush(self, seconds: float) -> None:
        """See `tracing.flush`. In a thread: with a collector that is away OpenTelemetry keeps no time-out."""
        sending = threading.Thread(target=self._provider.force_flush, name="last spans", daemon=True)
        sending.start()
        sending.join(seconds)


def otlp_exporter() -> SpanExporter:
    """By OTEL_EXPORTER_OTLP_PROTOCOL: http/protobuf, or grpc where its exporter is installed. Raises ImportError."""
    if os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGrpc

        return OverGrpc()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def remote(traceparent: str | None) -> Context | None:
    """The span of another process. None, so that the open one here is the parent, for no or a broken traceparent, and
    where the open one is of that very trace: it is nearer."""
    if not traceparent:
        return None
    found = _W3C.extract({"traceparent": traceparent})
    theirs, ours = (trace.get_current_span(each).get_span_context() for each in (found, None))
    return found if theirs.is_valid and theirs.trace_id != ours.trace_id else None


def _of_here(attributes: Mapping[str, Value]) -> dict[str, Value]:
    return _named(context.ids() | dict(attributes))


def _named(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """`run` is headroom.run; names with a dot or of OpenTelemetry's conventions (http_route) keep their own."""
    return {_NAMES.get(name, f"headroom.{name}"): value for name, value in attributes.items()}


_NAMES = {
    "http_method": "http.request.method",
    "http_route": "http.route",
    "http_status": "http.response.status_code",
}
