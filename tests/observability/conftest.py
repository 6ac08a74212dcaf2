"""A collector of traces that this process sends to."""

import pytest

from observability import tracing
from tests.observability.collector import Collector


@pytest.fixture
def collector(monkeypatch):
    with Collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        tracing._begun.cache_clear()
        yield made
        tracing._begun.cache_clear()
