"""Any metrics over many runs, thinned for small charts: one query over the effective points of all series.

Of a long series every 2^k-th of its own strides is read (the stride: from its first step to its second), through an
index of its steps, so that what it costs does not grow with the runs' length. Over another metric pairs of the same
step are read: of both series every 2^k-th of the stride that they have in common.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import ceil, floor, inf, lcm
from typing import NamedTuple

import numpy as np
from django.db import connection

from headroom.adapters.naming import SYSTEM
from webapp.record.runs.points import AXES, arrays_of
from webapp.record.runs.sampling import INDEXED_STRIDE, sampled_of_runs, stride_for

MOST_POINTS = 60  # of a line among many
EMPTIED = MOST_POINTS // 4  # fewer points than this: its steps are no multiples of the stride
FARTHEST = 2**62  # step
MOST_SCANNED = 500_000  # points that are looked at for what no index has; of more only what one has is read
PATTERN = "*?["
WALL_CLOCK = "wall_clock"  # hours since the run began, pauses between attempts included
COLUMNS = {name: f"p.{name}" for name in AXES} | {WALL_CLOCK: "extract(epoch FROM p.time) / 3600"}
Lines = dict[str, dict[str, "Line"]]
Window = tuple[float, float]  # of the axis
EVERYWHERE = (-inf, inf)

_NAMES = """
SELECT metric, count(*) FROM runs_series WHERE run_id = ANY(%(runs)s) GROUP BY metric ORDER BY metric
"""
_BEGAN = """
SELECT run.id, extract(epoch FROM least(run.started_at, first.time))::float8 / 3600 FROM runs_run AS run
LEFT JOIN LATERAL (
    SELECT time FROM runs_record WHERE run_id = run.id ORDER BY attempt, seq LIMIT 1) AS first ON true
WHERE run.id = ANY(%(runs)s) AND coalesce(run.started_at, first.time) IS NOT NULL
"""
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
    SELECT {sent} FROM runs_effective_point AS p WHERE p.series_id = wanted.id
        AND p.step BETWEEN wanted.first AND wanted.until
        AND (p.step %% wanted.stride = 0 OR p.step = wanted.last) HAVING count(*) > 0
) AS found
UNION ALL
SELECT wanted.*, found.* FROM {long} CROSS JOIN LATERAL (
    SELECT {sent} FROM runs_effective_point AS p WHERE p.series_id = wanted.id AND p.step %% {indexed} = 0
        AND p.step = ANY(ARRAY(SELECT generate_series(greatest(0, wanted.first / wanted.stride * wanted.stride),
            least(wanted.until, wanted.last), wanted.stride))) HAVING count(*) > 0
) AS found
"""
_NEWEST = """
SELECT s.run_id, s.metric, newest.step, newest.value FROM runs_series AS s JOIN LATERAL (
    SELECT p.step, p.value FROM runs_effective_point AS p WHERE p.series_id = s.id
    ORDER BY p.attempt DESC, p.seq DESC LIMIT 1
) AS newest ON true
WHERE s.run_id = ANY(%(runs)s) AND s.metric = ANY(%(metrics)s)
"""
# What was reported as null has no point; a partial index finds the records.
_GAPS = """
SELECT record.run_id, one.key, array_agg(coalesce(({x})::float8, 'NaN')) FROM runs_record AS record
CROSS JOIN LATERAL jsonb_each(record.metrics) AS one
WHERE record.run_id = ANY(%(runs)s) AND record.metrics @? '$.* ? (@ == null)' AND one.value = 'null'
    AND one.key = ANY(%(metrics)s) GROUP BY record.run_id, one.key
"""


@dataclass(frozen=True)
class Line:
    """Some points [m] of a series along the axis, by ascending x. `whole`: none is left out."""

    x: np.ndarray
    y: np.ndarray
    whole: bool


class _Series(NamedTuple):
    pk: int
    run: str
    metric: str
    apart: int  # steps from its first to its second point
    last: int  # step
    is_short: bool  # has no more points than are drawn


class _Want(NamedTuple):
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


class _Points(NamedTuple):
    """step, x and value [m], in any order."""

    step: np.ndarray
    x: np.ndarray
    y: np.ndarray


NOTHING = _Points(*np.empty((3, 0)))


def metrics_of(run_ids: Iterable[str]) -> dict[str, int]:
    """Metric -> how many of the runs report it, by name. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_NAMES, {"runs": list(run_ids)})
        return dict(cursor.fetchall())


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that any pattern means, in the order of the patterns: a name, a pattern with `*`, or a part of names.
    What machines do is meant only where it is said."""
    known = list(names)
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern in known:
            found[pattern] = None
            continue
        wanted = pattern if any(sign in pattern for sign in PATTERN) else f"*{pattern}*"
        pool = (
            known if pattern.startswith(SYSTEM) else [name for name in known if not name.startswith(SYSTEM)]
        )
        found |= dict.fromkeys(name for name in pool if fnmatchcase(name, wanted))
    return list(found)


def lines_of(
    run_ids: Sequence[str],
    metrics: Sequence[str],
    x: str,
    window: Window = EVERYWHERE,
    most: int = MOST_POINTS,
    most_scanned: int = MOST_SCANNED,
) -> Lines:
    """Metric -> run -> its line of about `most` points over an axis of COLUMNS, or over any other metric.

    Of a window of the axis, and one point beyond each of its ends: thinned anew, over another metric only cut. Two
    queries, up to two more for a window and the wall clock, and some more for series whose steps are irregular.
    """
    if x not in COLUMNS:
        return _over_metric(run_ids, metrics, x, window, most)
    own = _series_of(run_ids, metrics, most)
    began = _began(run_ids) if x == WALL_CLOCK else {}
    spans = _spans(own, x, window, began) if window != EVERYWHERE else {}
    least = INDEXED_STRIDE if sum(one.last // one.apart for one in own) > most_scanned else 1
    wants = {one.pk: _want(one, spans.get(one.run, EVERYWHERE), most, least) for one in own}
    read = _read(wants.values(), x)
    lines: Lines = {metric: {} for metric in metrics}
    emptied: dict[str, list[str]] = {}
    for one in own:
        points = read.get(want := wants[one.pk], NOTHING)
        if want.is_emptied(len(points.x)):
            emptied.setdefault(one.metric, []).append(one.run)
        elif len(points.x):
            lines[one.metric][one.run] = _line(points, began.get(one.run, 0.0), window, want.is_whole)
    for metric, runs in emptied.items():
        for run, points in _sampled(runs, metric, x, most, window if x in AXES else EVERYWHERE).items():
            lines[metric][run] = _line(points, began.get(run, 0.0), window, False)
    return lines


def _over_metric(run_ids: Sequence[str], metrics: Sequence[str], x: str, window: Window, most: int) -> Lines:
    """Pairs of the same step."""
    every = _series_of(run_ids, [*metrics, x], most)
    across = {one.run: one for one in every if one.metric == x}
    pairs = [(one, across[one.run]) for one in every if one.metric in metrics and one.run in across]
    wants = {one.pk: _want_pairs(one, other, most) for one, other in pairs}
    read = _read({want for both in wants.values() for want in both}, "step")
    lines: Lines = {metric: {} for metric in metrics}
    emptied: dict[str, list[str]] = {}
    for one, other in pairs:
        found = _paired(*(read.get(want, NOTHING) for want in wants[one.pk]))
        is_whole = one.is_short and other.is_short
        if not is_whole and len(found.x) < EMPTIED:
            emptied.setdefault(one.metric, []).append(one.run)
        elif len(found.x):
            lines[one.metric][one.run] = _line(found, 0.0, window, is_whole)
    irregular = {run for runs in emptied.values() for run in runs}
    values = arrays_of(irregular, x, ("step", "step", "value")) if irregular else {}
    for metric, runs in emptied.items():
        for run, points in _sampled(runs, metric, "step", most).items():
            if len((found := _paired(points, _Points(*values.get(run, NOTHING)))).x):
                lines[metric][run] = _line(found, 0.0, window, False)
    return lines


def _series_of(run_ids: Sequence[str], metrics: Sequence[str], most: int) -> list[_Series]:
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, {"runs": list(run_ids), "metrics": list(metrics), "most": most})
        return [
            _Series(pk, run, metric, max(1, steps[-1] - steps[0]), last, known <= most)
            for pk, run, metric, steps, last, known in cursor.fetchall()
        ]


def _began(run_ids: Iterable[str]) -> dict[str, float]:
    """Run -> when it began, in hours since 1970: its start or its first record, whichever was earlier."""
    with connection.cursor() as cursor:
        cursor.execute(_BEGAN, {"runs": list(run_ids)})
        return dict(cursor.fetchall())


def _want(one: _Series, span: Window, most: int, least: int = 1) -> _Want:
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
    return _Want(one.pk, stride, int(first), int(until), one.last)


def _want_pairs(one: _Series, other: _Series, most: int) -> tuple[_Want, _Want]:
    """All of two short series; else the steps that both have, as far as both go."""
    both = one._replace(
        apart=min(FARTHEST, lcm(one.apart, other.apart)),
        last=min(one.last, other.last),
        is_short=one.is_short and other.is_short,
    )
    want = _want(both, EVERYWHERE, most)
    return want, want._replace(pk=other.pk)


def _spans(own: Iterable[_Series], x: str, window: Window, began: Mapping[str, float]) -> dict[str, Window]:
    """Run -> between which steps the window lies: no axis goes back while steps go on. One query at most."""
    if x == "step":
        return {one.run: (ceil(max(-FARTHEST, window[0])), floor(min(FARTHEST, window[1]))) for one in own}
    densest: dict[str, _Series] = {}
    for one in own:
        if one.run not in densest or one.last / one.apart > densest[one.run].last / densest[one.run].apart:
            densest[one.run] = one
    wants = {_want(one, EVERYWHERE, MOST_POINTS): run for run, one in densest.items()}
    spans = {}
    for want, points in _read(wants, x).items():
        at = points.x - began.get(run := wants[want], 0.0)
        spans[run] = (
            max(points.step[at < window[0]], default=-inf), min(points.step[at > window[1]], default=inf),
        )  # fmt: skip
    return spans


def _read(wants: Iterable[_Want], x: str) -> dict[_Want, _Points]:
    """One query: what is read whole or by looking at all of it, and what is read through the index."""
    columns: dict[str, list[int]] = {
        f"{prefix}{name}": [] for prefix in ("", "long_") for name in _Want._fields
    }
    for want in wants:
        prefix = "long_" if want.stride % INDEXED_STRIDE == 0 else ""
        for name, value in want._asdict().items():
            columns[f"{prefix}{name}"].append(value)
    wanted, long = (_WANTED.format(prefix=prefix) for prefix in ("", "long_"))
    sent = _SENT.format(x=COLUMNS[x])
    with connection.cursor() as cursor:
        cursor.execute(_FOUND.format(wanted=wanted, long=long, sent=sent, indexed=INDEXED_STRIDE), columns)
        return {_Want(*row[:5]): _points(*row[5:]) for row in cursor.fetchall()}


def _points(steps: bytes, x: bytes, y: bytes) -> _Points:
    at, value = (np.frombuffer(sent, ">f8").astype("f8") for sent in (x, y))
    return _Points(np.frombuffer(steps, ">i8").astype("i8"), at, value)


def _sampled(
    runs: Sequence[str], metric: str, x: str, most: int, window: Window = EVERYWHERE
) -> dict[str, _Points]:
    """Run -> its points; steps that are no multiples of anything are thinned as in other charts. Two queries."""
    axis = x if x in AXES else "step"
    ends = {name: end for name, end in zip(("lo", "hi"), window, strict=True) if np.isfinite(end)}
    found = sampled_of_runs(runs, metric, axis, most, **ends)
    return {
        run: _Points(
            np.array([point.step for point in one.points], "i8"),
            np.array([
                point.time.timestamp() / 3600 if x == WALL_CLOCK else getattr(point, x) for point in one.points
            ], "f8"),
            np.array([point.value for point in one.points], "f8"),
        )
        for run, one in found.items()
    }  # fmt: skip


def _paired(points: _Points, across: _Points) -> _Points:
    """The points [m] at whose step the other series has a value, and that as x."""
    order = np.argsort(across.step, kind="stable")
    steps = across.step[order]
    at = np.searchsorted(steps, points.step, side="right") - 1
    both = (at >= 0) & (steps[at] == points.step) if len(steps) else np.zeros(len(at), bool)
    return _Points(points.step[both], across.y[order][at[both]], points.y[both])


def _line(points: _Points, began: float, window: Window, is_whole: bool) -> Line:
    """By ascending x; of a window with one point beyond each end, where there is one."""
    at = points.x - began
    order = np.lexsort((points.step, at))
    order = order[np.isfinite(at[order])]
    lo, hi = np.searchsorted(at[order], window[0]), np.searchsorted(at[order], window[1], side="right")
    order = order[max(0, lo - 1) : hi + 1]
    return Line(at[order], points.y[order], is_whole)


def newest_of(run_ids: Iterable[str], metrics: Sequence[str]) -> dict[tuple[str, str], tuple[int, float]]:
    """(run, metric) -> step and value of its newest effective point, where there is one. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST, {"runs": list(run_ids), "metrics": list(metrics)})
        return {(run, metric): (step, value) for run, metric, step, value in cursor.fetchall()}


def gaps_of(run_ids: Sequence[str], metrics: Sequence[str], x: str) -> dict[tuple[str, str], np.ndarray]:
    """(run, metric) -> where on an axis of COLUMNS [n] it was reported as null. One query; few runs have any."""
    at = f"nullif(record.compute -> '{x}', 'null')" if x in AXES else COLUMNS[x].replace("p.", "record.")
    at = "record.step" if x == "step" else at
    with connection.cursor() as cursor:
        cursor.execute(_GAPS.format(x=at), {"runs": list(run_ids), "metrics": list(metrics)})
        found = {(run, metric): np.array(places, "f8") for run, metric, places in cursor.fetchall()}
    began = _began({run for run, _ in found}) if x == WALL_CLOCK and found else {}
    return {owner: places - began.get(owner[0], 0.0) for owner, places in found.items()}
