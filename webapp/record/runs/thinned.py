"""Reading some points of many series at once, thinned in the database.

Of a long series every 2^k-th of its own strides is read (the stride: from its first step to its second), through an
index of its steps, so that what it costs does not grow with the runs' length.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np

from webapp.base.compiled import rows_of
from webapp.record.runs.points import AXES
from webapp.record.runs.sampling import INDEXED_STRIDE, stride_for

MOST_POINTS = 60  # of a line among many
EMPTIED = MOST_POINTS // 4  # fewer points than this: its steps are no multiples of the stride
FARTHEST = 2**62  # step
MOST_SCANNED = 500_000  # points that are looked at for what no index has; of more only what one has is read
WALL_CLOCK = "wall_clock"  # hours since the run began, pauses between attempts included
COLUMNS = {name: f"p.{name}" for name in AXES} | {WALL_CLOCK: "extract(epoch FROM p.time) / 3600"}
Lines = dict[str, dict[str, "Line"]]  # metric -> run -> its line
Window = tuple[float, float]  # of the axis
EVERYWHERE = (-inf, inf)

_ENDS = """
SELECT s.id, s.run_id, s.metric, head.steps, tail.step, counted.n FROM runs_series AS s
JOIN LATERAL (SELECT array_agg(step) AS steps FROM (
    SELECT step FROM runs_point WHERE series_id = s.id ORDER BY attempt, seq LIMIT 2) AS two) AS head ON true
JOIN LATERAL (
    SELECT step FROM runs_point WHERE series_id = s.id ORDER BY attempt DESC, seq DESC LIMIT 1) AS tail ON true
JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT 1 FROM runs_point WHERE series_id = s.id LIMIT %(most)s + 1) AS counted_up_to) AS counted ON true
WHERE s.run_id = ANY(%(runs)s) AND s.metric = ANY(%(metrics)s)
"""
_SENT = """string_agg(int8send(p.step), ''),
        string_agg(float8send(coalesce(({x})::float8, 'NaN')), ''), string_agg(float8send(p.value), '')"""
_WANTED = """unnest(%({prefix}pk)s::bigint[], %({prefix}stride)s::bigint[], %({prefix}first)s::bigint[],
    %({prefix}until)s::bigint[], %({prefix}last)s::bigint[]) AS wanted (id, stride, first, until, last)"""
_FOUND = """
SELECT wanted.*, found.* FROM {wanted} CROSS JOIN LATERAL (
    SELECT {sent} FROM runs_effective_point AS p WHERE p.series_id = wanted.id AND {where}
        AND p.step BETWEEN wanted.first AND wanted.until
        AND (p.step %% wanted.stride = 0 OR p.step = wanted.last) HAVING count(*) > 0
) AS found
UNION ALL
SELECT wanted.*, found.* FROM {long} CROSS JOIN LATERAL (
    SELECT {sent} FROM runs_effective_point AS p WHERE p.series_id = wanted.id AND {where} AND p.step %% {indexed} = 0
        AND p.step = ANY(ARRAY(SELECT generate_series(greatest(0, wanted.first / wanted.stride * wanted.stride),
            least(wanted.until, wanted.last), wanted.stride))) HAVING count(*) > 0
) AS found
"""
_WITHIN = "p.value BETWEEN %(lo)s AND %(hi)s"
_AT = """
SELECT wanted.id, found.* FROM (
    SELECT id, steps::bigint[] AS steps FROM unnest(%(pk)s::bigint[], %(steps)s::text[]) AS sent (id, steps) OFFSET 0
) AS wanted CROSS JOIN LATERAL (
    SELECT {sent} FROM runs_effective_point AS p WHERE p.series_id = wanted.id AND {at} HAVING count(*) > 0
) AS found
"""
AT_ANY = "p.step IN (SELECT unnest(wanted.steps))"
AT_INDEXED = f"p.step %% {INDEXED_STRIDE} = 0 AND p.step = ANY(wanted.steps)"


@dataclass(frozen=True)
class Line:
    """Some points [m] of a series along the axis, by ascending x. `whole`: none is left out."""

    x: np.ndarray
    y: np.ndarray
    whole: bool


class SeriesEnds(NamedTuple):
    """Where a series ends and how far apart its points are, as far as its first two and its last say."""

    pk: int
    run: str
    metric: str
    apart: int  # steps from its first to its second point
    last: int  # step
    is_short: bool  # has no more points than are drawn


class Want(NamedTuple):
    """Of a series every so many steps from the first to `until`, and the last; all where the stride is 1."""

    pk: int
    stride: int
    first: int
    until: int
    last: int

    @property
    def is_whole(self) -> bool:
        return self.stride == 1

    def is_emptied(self, points: int) -> bool:
        """Whether so few points came that the steps are no multiples of the stride."""
        room = (min(self.until, self.last) - max(self.first, 0)) // self.stride
        return not self.is_whole and points < min(EMPTIED, room // 2)


class Points(NamedTuple):
    """step, x and value [m], in any order."""

    step: np.ndarray
    x: np.ndarray
    y: np.ndarray


NOTHING = Points(*np.empty((3, 0)))


def ends_of(run_ids: Sequence[str], metrics: Sequence[str], most: int) -> list[SeriesEnds]:
    """Of these metrics of the runs; `most`: points that are drawn. One query."""
    rows = rows_of(_ENDS, {"runs": list(run_ids), "metrics": list(metrics), "most": most})
    return [
        SeriesEnds(pk, run, metric, max(1, steps[-1] - steps[0]), last, known <= most)
        for pk, run, metric, steps, last, known in rows
    ]


def want_of(one: SeriesEnds, span: Window, most: int, least: int = 1) -> Want:
    """The steps of a span, thinned by 2^k times the distance of the series' first two steps, a multiple of `least`; and
    one such beyond it."""
    first = max(-FARTHEST, span[0] - one.apart)
    until = min(FARTHEST, span[1] + one.apart)
    stride = 1
    if not one.is_short:
        last = max(0, min(one.last, until))
        places = [int(place // one.apart) for place in (last, max(0, min(first, last)))]
        stride = one.apart * stride_for(places[0], most, places[1])
        while stride % least:
            stride *= 2
    return Want(one.pk, stride, int(first), int(until), one.last)


def read_points(wants: Iterable[Want], x: str, values: Window = EVERYWHERE) -> dict[Want, Points]:
    """One query: what is read whole or by looking at all of it, and what is read through the index. Of all values, or
    of those in a window."""
    columns: dict[str, Any] = {f"{prefix}{name}": [] for prefix in ("", "long_") for name in Want._fields}
    for want in wants:
        prefix = "long_" if want.stride % INDEXED_STRIDE == 0 else ""
        for name, value in want._asdict().items():
            columns[f"{prefix}{name}"].append(value)
    wanted, long = (_WANTED.format(prefix=prefix) for prefix in ("", "long_"))
    parts = {"sent": _SENT.format(x=COLUMNS[x]), "where": "true" if values == EVERYWHERE else _WITHIN}
    found = _FOUND.format(wanted=wanted, long=long, indexed=INDEXED_STRIDE, **parts)
    rows = rows_of(found, columns | {"lo": values[0], "hi": values[1]})
    return {Want(*row[:5]): _points(*row[5:]) for row in rows}


def read_at(steps: Mapping[int, np.ndarray], at: str) -> dict[int, Points]:
    """Series -> its points at these steps, found as `at` says. One query."""
    texts = [f"{{{','.join(map(str, own.tolist()))}}}" for own in steps.values()]
    sent: dict[str, Any] = {"pk": list(steps), "steps": texts}
    rows = rows_of(_AT.format(sent=_SENT.format(x=COLUMNS["step"]), at=at), sent)
    return {pk: _points(*row) for pk, *row in rows}


def _points(steps: bytes, x: bytes, y: bytes) -> Points:
    at, value = (np.frombuffer(sent, ">f8").astype("f8") for sent in (x, y))
    return Points(np.frombuffer(steps, ">i8").astype("i8"), at, value)


def line_of(points: Points, began: float, window: Window, is_whole: bool) -> Line:
    """By ascending x; of a window with one point beyond each end, where there is one."""
    at = points.x - began
    order = np.lexsort((points.step, at))
    order = order[np.isfinite(at[order])]
    lo, hi = np.searchsorted(at[order], window[0]), np.searchsorted(at[order], window[1], side="right")
    order = order[max(0, lo - 1) : hi + 1]
    return Line(at[order], points.y[order], is_whole)
