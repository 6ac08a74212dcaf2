"""Lines of values become Headroom's records: grouped by moment, translated, with compute; see docs/tracking.md."""

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from training.records import Compute, Record
from webapp.interfaces.tracking.translate import Meter, RunDescription, evaluation

MAX_IN_RECORD = 990  # of a record's 1000 metrics: the rest is for what the translation adds
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Value:
    """One value as a client logged it; NaN and infinity are values, too."""

    name: str
    value: float
    step: int
    time_ms: int

    @property
    def moment(self) -> tuple[int, int]:
        return self.step, self.time_ms

    @property
    def rank(self) -> tuple[int, int, float]:
        """The greatest is the newest. NaN is less than any number."""
        return self.step, self.time_ms, -math.inf if math.isnan(self.value) else self.value


@dataclass
class _Moment:
    """Lists of one moment: those before `free` are full, those before `place[NAME]` hold the name already."""

    lists: list[list[Value]] = field(default_factory=list)
    place: dict[str, int] = field(default_factory=dict)
    free: int = 0

    def add(self, value: Value) -> list[Value] | None:
        """The list that it began; None where one had room. A later list never holds more than an earlier one."""
        at = max(self.place.get(value.name, 0), self.free)
        begun: list[Value] | None = None
        if at == len(self.lists):
            begun = []
            self.lists.append(begun)
        self.lists[at].append(value)
        self.place[value.name] = at + 1
        self.free += at == self.free and len(self.lists[at]) == MAX_IN_RECORD
        return begun


def by_moment(values: Iterable[Value]) -> list[list[Value]]:
    """Values of one step and time together, in the order of arrival; a name twice, or too many, begins another list."""
    moments: dict[tuple[int, int], _Moment] = {}
    found = (moments.setdefault(value.moment, _Moment()).add(value) for value in values)
    return [begun for begun in found if begun is not None]


def records_of(
    lists: Sequence[Sequence[Value]],
    *,
    series: Mapping[str, str],
    attempt: int,
    first_seq: int,
    meter: Meter,
    said: RunDescription,
) -> Iterator[Record]:
    """One record a list. `series`: name of a metric -> name of its series. The meter goes on as the records do."""
    for seq, values in enumerate(lists, first_seq):
        finite = {each.name: each.value for each in values if math.isfinite(each.value)}
        step, time_ms = values[0].moment
        meter.advance(finite, step=step, time_ms=time_ms, said=said)
        logged = {series[each.name]: finite.get(each.name) for each in values if each.name in series}
        yield Record(
            attempt=attempt,
            seq=seq,
            step=step,
            time=iso(time_ms),
            compute=Compute(**meter.compute),
            metrics={**evaluation(finite, said), **logged},
        )


def iso(time_ms: int) -> str:
    return (EPOCH + dt.timedelta(milliseconds=time_ms)).isoformat()


def to_ms(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(milliseconds=1)
