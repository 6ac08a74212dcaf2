"""Series for charts: of every 2^k steps the last, the smallest and the largest value.

What is needed to choose lies in the index `point_once` alone.

How charts leave out points: some of every stretch of 2^k steps are kept, k the least for which there is room.

Wider stretches are unions of narrower ones, and k only grows with a series. So a point that is shown was shown at every
earlier time since it was new: more data thins points out, and never moves one. Fits and exports read all points.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from headroom.adapters.naming import names_for
from webapp.base.compiled import rows_of
from webapp.record.runs.models import Run
from webapp.record.runs.points import AXES, CHOSEN, COLUMNS, CurvePoint, arrays_of

MAX_POINTS = 120
LAST, SMALLEST, LARGEST = 1, 2, 4  # what a point is of its stretch; they add up
ROLES = {LAST: "last", SMALLEST: "min", LARGEST: "max"}
EVERY_POINT = "every point"
MIN_SAMPLE = 10
_POINTS = f"""{CHOSEN}
SELECT chosen.run_id, {COLUMNS}
FROM unnest(%(owners)s::text[], %(attempts)s::int[], %(seqs)s::bigint[]) AS wanted (run_id, attempt, seq)
JOIN chosen ON chosen.run_id = wanted.run_id
JOIN runs_point AS p ON p.series_id = chosen.id AND p.attempt = wanted.attempt AND p.seq = wanted.seq
ORDER BY chosen.id, p.attempt, p.seq
"""  # nosec B608  # constants; values are parameters
INDEXED_STRIDE = 8  # the index point_every_8 has the points of these steps alone


@dataclass(frozen=True)
class Choice:
    """Places [m] of the points that are shown, ascending, their roles [m], and the width of a stretch (None: all)."""

    places: np.ndarray
    roles: np.ndarray
    width: int | None

    @property
    def method(self) -> str:
        """How they were chosen, in words."""
        return (
            EVERY_POINT
            if self.width is None
            else f"last value, minimum and maximum of every {self.width} steps"
        )


def stride_for(last_step: int, most: int = MAX_POINTS, first_step: int = 0) -> int:
    """The least power of two that leaves at most `most` stretches of the steps first_step..last_step."""
    k = 0
    while (last_step >> k) - (first_step >> k) + 1 > most:
        k += 1
    return 1 << k


def choose(step: np.ndarray, value: np.ndarray, most: int) -> Choice:
    """Which of the points of a series, in the order of training, are shown: at most `most` (at least 3). step [n] whole
    numbers, value [n]."""
    if len(step) <= most:
        return Choice(np.arange(len(step)), np.zeros(len(step), int), None)
    width = stride_for(int(step.max()), most // 3, int(step.min()))
    roles = _roles(_stretches(step, width), value)
    places = np.flatnonzero(roles)
    return Choice(places, roles[places], width)


def newest(step: np.ndarray, most: int) -> np.ndarray:
    """Places [m], ascending, of the newest point of each stretch; m is at most `most`. step [n] in the order of
    training."""
    width = 1 if len(step) <= most else stride_for(int(step.max()), most, int(step.min()))
    _, from_the_end = np.unique(_stretches(step, width)[::-1], return_index=True)
    return np.sort(len(step) - 1 - from_the_end)


def _stretches(step: np.ndarray, width: int) -> np.ndarray:
    return step >> width.bit_length() - 1  # a width may be 2^63


def _roles(stretch: np.ndarray, value: np.ndarray) -> np.ndarray:
    """What each point [n] is of its stretch [n]; of equal values the earliest is the smallest and the largest."""
    order = np.argsort(stretch, kind="stable")  # steps may come in any order
    stretch, value = stretch[order], value[order]
    starts = np.flatnonzero(np.r_[True, stretch[1:] != stretch[:-1]])
    sizes = np.diff(np.r_[starts, len(stretch)])
    place = np.arange(len(stretch))
    roles = np.zeros(len(stretch), int)
    roles[starts + sizes - 1] |= LAST
    for role, extreme in ((SMALLEST, np.minimum), (LARGEST, np.maximum)):
        is_extreme = value == np.repeat(extreme.reduceat(value, starts), sizes)
        roles[np.minimum.reduceat(np.where(is_extreme, place, len(place)), starts)] |= role
    unsorted = np.empty_like(roles)
    unsorted[order] = roles
    return unsorted


@dataclass(frozen=True)
class Sampled:
    """Some points of a series in the order of training, what each is of its stretch, how they were chosen, of how many.

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
class _Found:
    """The points of a series that are shown: attempt, seq, step and value [m]; of how many they were chosen."""

    attempt: np.ndarray
    seq: np.ndarray
    step: np.ndarray
    value: np.ndarray
    choice: Choice
    total: int


def sampled_points(
    run: Run, metric: str, x: str = "step", points: int = 1000, **window: float | None
) -> Sampled:
    """At most `points` (at least 10) points of a series; those without this x are left out. Two queries.

    window: `lo` and `hi` of the axis `x`; inside of them it is sampled anew, down to every point. Raises ValueError for
    no axis.
    """
    found = sampled_of_runs([run.pk], metric, x, points, **window)
    return found.get(run.pk, Sampled([], EVERY_POINT, 0))


def sampled_of_runs(
    run_ids: Iterable[str], metric: str, x: str = "step", points: int = 1000, **window: float | None
) -> dict[str, Sampled]:
    """Run -> its sample, for many runs in two queries; runs without such a point are left out."""
    found = _found(run_ids, metric, x, points, **window)
    rows = _points(found, metric)
    return {run_id: _sampled(one, rows[run_id], x) for run_id, one in found.items()}


def _sampled(found: _Found, points: list[CurvePoint], x: str) -> Sampled:
    roles = found.choice.roles.tolist() if found.choice.width is not None else []
    usable = [i for i, point in enumerate(points) if getattr(point, x) is not None]
    return Sampled(
        [points[i] for i in usable],
        found.choice.method,
        found.total,
        [roles[i] for i in usable] if roles else [],
    )


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
    run_ids: Iterable[str], metric: str, x: str = "step", points: int = 1000, **window: float | None
) -> dict[str, Columns]:
    """Run -> its sample as columns, for charts of many runs: one query over steps, two over another axis."""
    found = _found(run_ids, metric, x, points, **window)
    rows = {} if x == "step" else _points(found, metric)
    return {
        run_id: _columns(one, [getattr(point, x) for point in rows.get(run_id, ())], x)
        for run_id, one in found.items()
    }


def _columns(found: _Found, compute: list[float | None], x: str) -> Columns:
    steps = found.step.tolist()
    compute = steps if x == "step" else compute
    kept = [place for place, known in enumerate(compute) if known is not None]
    roles = found.choice.roles[kept]
    places = {word: np.flatnonzero(roles & role).tolist() for role, word in ROLES.items()}
    return Columns(
        found.total,
        found.choice.method,
        [steps[place] for place in kept],
        [compute[place] for place in kept],
        found.value[kept].tolist(),
        places if found.choice.width is not None else {},
    )


def _found(
    run_ids: Iterable[str], metric: str, x: str, points: int, **window: float | None
) -> dict[str, _Found]:
    """Run -> which of its points are shown."""
    if x not in AXES:
        raise ValueError(f"{x!r} is no axis")
    bounds = [
        f"p.{x} {sign} %({name})s"
        for name, sign in (("lo", ">="), ("hi", "<="))
        if window.get(name) is not None
    ]
    where = " AND ".join(bounds) or "true"
    read = arrays_of(run_ids, metric, ("attempt", "seq", "step", "value"), where, **window)
    found = {}
    for pk, (attempt, seq, step, value) in read.items():
        choice = choose(step, value, max(points, MIN_SAMPLE))
        at = choice.places
        found[pk] = _Found(attempt[at], seq[at], step[at], value[at], choice, len(step))
    return found


def _points(found: dict[str, _Found], metric: str) -> dict[str, list[CurvePoint]]:
    """Run -> the shown points, whole."""
    values = {
        "runs": list(found),
        "names": names_for(metric),
        "owners": [run_id for run_id, one in found.items() for _ in one.seq],
        "attempts": [number for one in found.values() for number in one.attempt.tolist()],
        "seqs": [seq for one in found.values() for seq in one.seq.tolist()],
    }
    points: dict[str, list[CurvePoint]] = {run_id: [] for run_id in found}
    for run_id, *row in rows_of(_POINTS, values):
        points[run_id].append(CurvePoint(*row))
    return points
