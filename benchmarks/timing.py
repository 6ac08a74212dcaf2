"""Times of something that is done again and again."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Median and 95th percentile, in milliseconds."""

    median_ms: float
    p95_ms: float


def timed(call: Callable[[int], object], repeats: int, before: Callable[[], object] = lambda: None) -> Times:
    """Times of call(1), call(2), ...; `before` each, not timed. At least two repeats."""
    times = []
    for i in range(1, max(2, repeats) + 1):
        before()
        start = time.perf_counter()
        call(i)
        times.append(1000 * (time.perf_counter() - start))
    return Times(statistics.median(times), statistics.quantiles(times, n=20, method="inclusive")[-1])


def percentiles(values: Sequence[float], *wanted: int) -> tuple[float, ...]:
    """The percentiles of values; of a single one, that one."""
    if len(values) < 2:
        return tuple(values[0] for _ in wanted)
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return tuple(cuts[place - 1] for place in wanted)
