"""What the machines of a run do, on its clock: the series whose names begin with `system/` (`headroom.system`).

Their points are all shown, also those of an attempt that a later one has superseded: the machines did that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection

from headroom.adapters.naming import SYSTEM
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import series_of
from webapp.record.runs.thinning import MAX_POINTS

SECONDS = 15.0  # between two looks
HOST = "host"

_ENDS = """
SELECT s.id, s.metric, first.time, newest.time, newest.value FROM runs_series AS s
JOIN LATERAL (SELECT time FROM runs_point WHERE series_id = s.id ORDER BY attempt, seq LIMIT 1) AS first ON true
JOIN LATERAL (
    SELECT time, value FROM runs_point WHERE series_id = s.id ORDER BY attempt DESC, seq DESC LIMIT 1
) AS newest ON true
WHERE s.run_id = %(run)s AND s.metric = ANY(%(metrics)s)
"""
_STRETCHES = """
SELECT series_id, floor(date_part('epoch', time - %(start)s) / %(width)s)::bigint AS place, avg(value), max(value)
FROM runs_point WHERE series_id = ANY(%(series)s) GROUP BY series_id, place ORDER BY series_id, place
"""


@dataclass(frozen=True)
class Figure:
    """Whose it is: of a machine and a part of the run on it, and what is measured. `what` may name a device before."""

    metric: str
    node: str
    part: str
    what: str


@dataclass
class Line:
    """Means [m] of stretches of `width` seconds, by the hours since the run's start at their beginnings; the newest
    value, and the largest."""

    width: float
    latest: float
    largest: float
    hours: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def figure_of(metric: str) -> Figure:
    """Of `system/NODE/PART/WHAT`. What other clients report names no machine: it is one of its run's client."""
    node, _, rest = metric.removeprefix(SYSTEM).partition("/")
    part, _, what = rest.partition("/")
    is_ours = what.endswith(("_fraction", "_bytes", "_watts", "_bytes_per_second"))
    return (
        Figure(metric, node, part, what) if is_ours else Figure(metric, "", "", metric.removeprefix(SYSTEM))
    )


def figures_of(run: Run) -> list[Figure]:
    """What is known of the run's machines, by node, the machine itself before the parts on it, then by name."""
    names = series_of(run).filter(metric__startswith=SYSTEM).values_list("metric", flat=True)
    return sorted(map(figure_of, names), key=lambda one: (one.node, one.part != HOST, one.part, one.what))


def lines_of(run: Run, figures: Sequence[Figure]) -> dict[str, Line]:
    """Metric -> its line. Two queries. The width is the least 15 s x 2^k that leaves at most MAX_POINTS stretches, so
    that what is drawn of a whole stretch never moves."""
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, {"run": run.pk, "metrics": [one.metric for one in figures]})
        ends = cursor.fetchall()
        if not ends:
            return {}
        start: datetime = min(
            [first for _, _, first, _, _ in ends] + ([run.started_at] if run.started_at else [])
        )
        width = width_for(max((newest - start).total_seconds() for _, _, _, newest, _ in ends))
        found = {pk: Line(width, latest, latest) for pk, *_, latest in ends}
        cursor.execute(_STRETCHES, {"start": start, "width": width, "series": list(found)})
        for pk, place, mean, largest in cursor.fetchall():
            line = found[pk]
            line.hours.append(place * width / 3600)
            line.values.append(mean)
            line.largest = max(line.largest, largest)
    return {metric: found[pk] for pk, metric, *_ in ends}


def width_for(seconds: float, most: int = MAX_POINTS) -> float:
    """The least 15 s x 2^k of which at most `most` fill this time."""
    width = SECONDS
    while seconds / width >= most:
        width *= 2
    return width
