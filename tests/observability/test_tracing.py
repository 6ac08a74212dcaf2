import os
import subprocess
import sys
from pathlib import Path

import pytest

from observability import context, logs, tracing
from stack.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_without_an_endpoint_nothing_is_imported_and_nothing_is_said():
    code = """
import sys
from observability import tracing
with tracing.span("x", parent="%s", run="r") as span:
    span.set(a=1); span.rename("y"); span.failed("z")
    tracing.past("p", 1.0, 2.0)
    assert tracing.traceparent() == "" and tracing.ids() == {} and not tracing.is_on()
tracing.flush()
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", code % PARENT], cwd=ROOT, env=clean, capture_output=True, text=True, timeout=60
    )

    assert done.stdout.strip() == "[]", done.stderr


def test_spans_are_children_of_what_is_open_or_of_what_came(collector):
    with (
        context.bound(run="abc", attempt=2),
        tracing.span("outer", kind="server", parent=PARENT, step=3) as outer,
    ):
        carried = tracing.traceparent()
        outer.rename("renamed")
        with pytest.raises(ValueError), tracing.span("inner"):
            raise ValueError("a secret")
        tracing.past("before", 100.0, 101.5, groups=4)
        with tracing.span("of the same trace", parent=PARENT):
            pass
    tracing.flush()

    spans = {span.name: span for span in collector.spans}
    outer = spans["renamed"]
    assert (outer.trace, outer.parent) == (PARENT.split("-")[1], PARENT.split("-")[2])
    assert carried == f"00-{outer.trace}-{outer.span}-01"
    assert outer.attributes == {"headroom.run": "abc", "headroom.attempt": "2", "headroom.step": 3}
    assert {spans[name].parent for name in ("inner", "before", "of the same trace")} == {outer.span}
    assert spans["inner"].failed and spans["inner"].attributes["error.type"] == "ValueError"
    assert "secret" not in str(spans["inner"])
    assert (spans["before"].began, spans["before"].ended) == (100_000_000_000, 101_500_000_000)


@pytest.mark.parametrize("parent", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_a_broken_parent_begins_a_trace_of_its_own(collector, parent):
    with tracing.span("alone", parent=parent):
        pass
    tracing.flush()

    (span,) = collector.spans
    assert span.parent == "" and len(span.trace) == 32


def test_log_lines_name_the_span(collector):
    import json
    import logging

    record = logging.LogRecord("x", logging.INFO, "", 0, "text", None, None)
    with tracing.span("outer", parent=PARENT):
        said = json.loads(logs.JsonFormatter("web").format(record))

    assert said["trace_id"] == PARENT.split("-")[1] and len(said["span_id"]) == 16


AWAY = """
import logging
logging.basicConfig(format="%(name)s: %(message)s")
from observability import tracing
for name in ("first", "second"):
    with tracing.span(name):
        pass
    tracing.flush(0.5)
print("worked on")
"""


def test_a_collector_that_is_away_is_said_once_and_costs_nothing_else():
    variables = os.environ | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}", "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", AWAY], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stdout.strip()) == (0, "worked on")
    assert done.stderr.splitlines() == [
        "observability.otel: the collector takes no spans now; what is not sent in time is lost"
    ]


def test_it_can_be_switched_off_although_an_endpoint_is_set(collector, monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    tracing._begun.cache_clear()

    assert not tracing.is_on()


def test_a_machine_without_the_packages_says_so_once_and_works_on(collector, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "observability.otel", None)
    for _ in range(3):
        with tracing.span("x"):
            pass

    assert [record.message for record in caplog.records] == [
        "no traces are sent: observability.otel is not installed here"
    ]
