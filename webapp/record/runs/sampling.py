"""Series for charts: of every 2^k steps the last, the smallest and the largest value. Fits and exports read all points.

Wider buckets are unions of narrower ones, so a point that is shown was shown at every earlier time since it was new:
more data thins points out, and never moves one. What is needed to choose lies in the index `point_once` alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db import connection

from headroom.adapters.naming import names_for
from webapp.record.runs.many import CHOSEN
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import CurvePoint

MIN_SAMPLE = 10
LAST, SMALLEST, LARGEST = 1, 2, 4  # what a point is of its bucket; they add up
ROLES = {LAST: "last", SMALLEST: "min", LARGEST: "max"}
EVERY_POINT = "every point"
AXES = ("device_hours", "flops", "tokens", "step")

# Bytes, because a hundred thousand numbers as objects would take longer to make than to find.
_READ = f"""{CHOSEN}
SELECT s.id, s.run_id, found.* FROM chosen AS s CROSS JOIN LATERAL (
    SELECT string_agg(int4send(attempt), ''), string_agg(int8send(seq), ''), string_agg(int8send(step), ''),
        string_agg(float8send(value), '')
    FROM (
        SELECT p.attempt, p.seq, p.step, p.value FROM runs_point AS p
        WHERE p.series_id = s.id {{window}} AND NOT EXISTS (
            SELECT 1 FROM later AS a WHERE a.run_id = s.run_id AND a.number > p.attempt
                AND (a.resumed_from_step IS NULL OR a.resumed_from_step < p.step))
        ORDER BY p.attempt, p.seq
    ) AS here
) AS found
"""  # nosec B608  # constants; values are parameters
_POINTS = """
SELECT wanted.series, p.step, p.device_hours, p.flops, p.tokens, p.value, p.stderr, p.attempt, p.seq, p."time"
FROM unnest(%(series)s::bigint[], %(attempts)s::int[], %(seqs)s::bigint[]) AS wanted (series, attempt, seq)
JOIN runs_point AS p ON p.series_id = wanted.series AND p.attempt = wanted.attempt AND p.seq = wanted.seq
ORDER BY wanted.series, p.attempt, p.seq
"""
_NUMBERS = ((">i4", np.int64), (">i8", np.int64), (">i8", np.int64), (">f8", float))


@dataclass(frozen=True)
class Sampled:
    """Some points of a series in the order of training, what each is of its bucket, how they were chosen, of how many.

    `roles` is empty where every point is shown.
    """

    points: list[CurvePoint]
    method: str
    total: int
    roles: list[int] = field(default_factory=list)

    @property
    def sampled(self) -> bool:
        return len(self.points) < self.total


@dataclass(frozen=True)
class _Read:
    """Effective points of one series in the order of training: attempt, seq, step [n] whole numbers, value [n]."""

    series: int
    attempt: np.ndarray
    seq: np.ndarray
    step: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class _Choice:
    """Places [m] of the points that are shown, ascending, their roles [m], and the width of a bucket (None: all)."""

    places: np.ndarray
    roles: np.ndarray
    width: int | None


def sampled_points(
    run: Run,
    metric: str,
    x: str = "step",
    points: int = 1000,
    *,
    lo: float | None = None,
    hi: float | None = None,
) -> Sampled:
    """At most `points` (at least 10) points of a series; those without this x are left out. Two queries.

    `lo`, `hi`: of the axis `x`; inside of them it is sampled anew, down to every point. Raises ValueError for no axis.
    """
    found = sampled_of_runs([run.pk], metric, x, points, lo=lo, hi=hi)
    return found.get(run.pk, Sampled([], EVERY_POINT, 0))


def sampled_of_runs(
    run_ids: Iterable[str], metric: str, x: str = "step", points: int = 1000, **window: Any
) -> dict[str, Sampled]:
    """Run -> its sample, for many runs in two queries; runs without such a point are left out."""
    reads, chosen = _chosen(list(run_ids), metric, x, points, **window)
    rows = _points(reads, chosen)
    return {
        run_id: _sampled(reads[run_id], chosen[run_id], rows[reads[run_id].series], x) for run_id in reads
    }


@dataclass(frozen=True)
class Columns:
    """A sample as columns [m] in the order of training. `places`: role ("last", "min", "max") -> its points, by their
    places in the columns; empty where every point is shown."""

    total: int
    method: str
    step: list[int]
    compute: list[float | None]
    value: list[float]
    places: dict[str, list[int]]


def columns_of_runs(
    run_ids: Iterable[str], metric: str, x: str = "step", points: int = 1000, **window: Any
) -> dict[str, Columns]:
    """Run -> its sample as columns, for charts of many runs: one query over steps, two over another axis."""
    reads, chosen = _chosen(list(run_ids), metric, x, points, **window)
    rows = {} if x == "step" else _points(reads, chosen)
    return {
        run_id: _columns(read, chosen[run_id], [getattr(point, x) for point in rows.get(read.series, ())], x)
        for run_id, read in reads.items()
    }


def _columns(read: _Read, choice: _Choice, compute: list[float | None], x: str) -> Columns:
    steps = read.step[choice.places].tolist()
    compute = steps if x == "step" else compute
    kept = [place for place, known in enumerate(compute) if known is not None]
    roles = choice.roles[kept]
    places = {word: np.flatnonzero(roles & role).tolist() for role, word in ROLES.items()}
    return Columns(
        len(read.step),
        method_of(choice.width),
        [steps[place] for place in kept],
        [compute[place] for place in kept],
        read.value[choice.places][kept].tolist(),
        places if choice.width is not None else {},
    )


def _chosen(
    run_ids: list[str], metric: str, x: str, points: int, *, lo: float | None = None, hi: float | None = None
) -> tuple[dict[str, _Read], dict[str, _Choice]]:
    """What was read of each run, and what of it is shown."""
    if x not in AXES:
        raise ValueError(f"{x!r} is no axis")
    reads = _read(run_ids, metric, x, lo, hi)
    most = max(points, MIN_SAMPLE)
    return reads, {pk: choose(read.step, read.value, most, lo is None) for pk, read in reads.items()}


def method_of(width: int | None) -> str:
    """How a sample was chosen, in words."""
    return EVERY_POINT if width is None else f"last value, minimum and maximum of every {width} steps"


def choose(step: np.ndarray, value: np.ndarray, most: int, from_zero: bool = True) -> _Choice:
    """Which of the points of a series, in the order of training, are shown: at most `most` (at least 3).

    step [n] whole numbers, value [n]. `from_zero`: buckets are counted from step 0, as they must be for a sample that
    stays as it is when data come; else, or where there are steps below 0, from the first step there is.
    """
    if len(step) <= most:
        return _Choice(np.arange(len(step)), np.zeros(len(step), int), None)
    first, last, k = (min(0, int(step.min())) if from_zero else int(step.min())), int(step.max()), 0
    while 3 * ((last >> k) - (first >> k) + 1) > most:
        k += 1
    roles = _roles(step >> k, value)
    places = np.flatnonzero(roles)
    return _Choice(places, roles[places], 1 << k)


def _roles(bucket: np.ndarray, value: np.ndarray) -> np.ndarray:
    """What each point [n] is of its bucket [n]; of equal values the earliest is the smallest and the largest."""
    order = np.argsort(bucket, kind="stable")  # steps may come in any order
    bucket, value = bucket[order], value[order]
    starts = np.flatnonzero(np.r_[True, bucket[1:] != bucket[:-1]])
    sizes = np.diff(np.r_[starts, len(bucket)])
    place = np.arange(len(bucket))
    roles = np.zeros(len(bucket), int)
    roles[starts + sizes - 1] |= LAST
    for role, extreme in ((SMALLEST, np.minimum), (LARGEST, np.maximum)):
        is_extreme = value == np.repeat(extreme.reduceat(value, starts), sizes)
        roles[np.minimum.reduceat(np.where(is_extreme, place, len(place)), starts)] |= role
    unsorted = np.empty_like(roles)
    unsorted[order] = roles
    return unsorted


def _read(run_ids: list[str], metric: str, x: str, lo: float | None, hi: float | None) -> dict[str, _Read]:
    bounds = {"lo": (lo, ">="), "hi": (hi, "<=")}
    window = " ".join(f"AND p.{x} {sign} %({name})s" for name, (at, sign) in bounds.items() if at is not None)
    values: dict[str, Any] = {"runs": run_ids, "names": names_for(metric), "lo": lo, "hi": hi}
    with connection.cursor() as cursor:
        cursor.execute(_READ.format(window=window), values)
        rows = cursor.fetchall()
    return {
        run_id: _Read(
            series,
            *(
                np.frombuffer(data, kind).astype(to)
                for data, (kind, to) in zip(columns, _NUMBERS, strict=True)
            ),
        )
        for series, run_id, *columns in rows
        if columns[0] is not None
    }


def _points(reads: dict[str, _Read], chosen: dict[str, _Choice]) -> dict[int, list[CurvePoint]]:
    """Series -> the chosen points, whole."""
    parts = [(read, chosen[run_id].places) for run_id, read in reads.items()]
    values = {
        "series": [read.series for read, places in parts for _ in places],
        "attempts": _joined([read.attempt[places] for read, places in parts]),
        "seqs": _joined([read.seq[places] for read, places in parts]),
    }
    found: dict[int, list[CurvePoint]] = {read.series: [] for read in reads.values()}
    with connection.cursor() as cursor:
        cursor.execute(_POINTS, values)
        for series, *row in cursor.fetchall():
            found[series].append(CurvePoint(*row))
    return found


def _joined(parts: Sequence[np.ndarray]) -> list[int]:
    return np.concatenate(parts).tolist() if parts else []


def _sampled(read: _Read, choice: _Choice, points: list[CurvePoint], x: str) -> Sampled:
    usable = [i for i, point in enumerate(points) if getattr(point, x) is not None]
    roles = choice.roles.tolist() if choice.width is not None else []
    return Sampled(
        [points[i] for i in usable],
        method_of(choice.width),
        len(read.step),
        [roles[i] for i in usable] if roles else [],
    )
