"""Lines of values become Headroom's records: grouped by moment, translated, with compute; see docs/tracking.md."""

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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


def by_moment(values: Iterable[Value]) -> list[list[Value]]:
    """Values of one step and time together, in the order of arrival; a name twice, or too many, begins another list."""
    open_lists: dict[tuple[int, int], list[tuple[list[Value], set[str]]]] = {}
    lists = []
    for value in values:
        here = open_lists.setdefault(value.moment, [])
        room = next(
            (each for each in here if value.name not in each[1] and len(each[0]) < MAX_IN_RECORD), None
        )
        if room is None:
            room = ([], set())
            here.append(room)
            lists.append(room[0])
        room[0].append(value)
        room[1].add(value.name)
    return lists


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
