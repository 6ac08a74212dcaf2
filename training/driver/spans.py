"""When the groups of a batch were generated and judged, for the record and the trace of the step that trains on it."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from observability import tracing

Spans = dict[str, tuple[float, float]]  # what -> when it began and ended, in seconds since 1970


@dataclass
class Moments:
    """Of one group, seconds since 1970. None: not yet."""

    began: float
    generated: float | None = None
    judged: float | None = None


class GroupTimes:
    """Groups are generated beside each other and beside the steps, so a step gets one span for the time in which any of
    its groups was generated, and one for the time in which any was judged."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._moments: dict[int, Moments] = {}

    def begins(self, number: int) -> None:
        """The generator gets this group, perhaps once more, with another prompt."""
        self._moments.setdefault(number, Moments(self._clock()))

    def generated(self, number: int) -> None:
        """Its responses are complete; the verifiers get them."""
        if number in self._moments:
            self._moments[number].generated = self._clock()

    def judged(self, number: int) -> None:
        """It has its rewards."""
        if number in self._moments:
            self._moments[number].judged = self._clock()

    def tell(self, numbers: Iterable[int]) -> Spans:
        """The open step trains on these groups. Those that an earlier attempt has made are not known, and left out."""
        found = [self._moments.pop(number) for number in numbers if number in self._moments]
        whole = [(m.began, m.generated, m.judged) for m in found if m.generated and m.judged]
        if not whole:
            return {}
        began, generated, judged = zip(*whole, strict=True)
        spans = {"generate": (min(began), max(generated)), "reward": (min(generated), max(judged))}
        for name, (first, last) in spans.items():
            tracing.past(name, first, last, groups=len(whole))
        return spans


def span_metrics(spans: Mapping[str, tuple[float, float]], now: float) -> dict[str, float]:
    """As a record tells of them: how long each took, and how long before the record, now, it ended."""
    metrics: dict[str, float] = {}
    for name, (began, ended) in spans.items():
        metrics[f"perf/{name}_seconds"] = max(0.0, ended - began)
        metrics[f"perf/{name}_ago_seconds"] = max(0.0, now - ended)
    return metrics
