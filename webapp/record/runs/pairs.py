"""Lines of any metrics over another metric: pairs of values of the same step, for small charts.

Of both series every 2^k-th of the stride is read that they have in common. Of a window of the other metric the steps
are found first at which it lies there.
"""

from collections.abc import Collection, Iterator, Sequence
from math import lcm

import numpy as np

from webapp.record.runs.points import arrays_of
from webapp.record.runs.sampling import INDEXED_STRIDE, choose
from webapp.record.runs.thinned import (
    AT_ANY,
    AT_INDEXED,
    EMPTIED,
    EVERYWHERE,
    FARTHEST,
    NOTHING,
    Lines,
    Points,
    SeriesEnds,
    Want,
    Window,
    ends_of,
    line_of,
    read_at,
    read_points,
    want_of,
)


def lines_over_metric(
    run_ids: Sequence[str], metrics: Sequence[str], x: str, window: Window, most: int, most_scanned: int
) -> Lines:
    """Pairs of the same step."""
    every = ends_of(run_ids, [*metrics, x], most)
    across = {one.run: one for one in every if one.metric == x}
    pairs = [(one, across[one.run]) for one in every if one.metric in metrics and one.run in across]
    wants = {one.pk: _want_pairs(one, other, most) for one, other in pairs}
    read = read_points({want for both in wants.values() for want in both}, "step")
    lines: Lines = {metric: {} for metric in metrics}
    emptied: dict[str, list[str]] = {}
    thinned = []
    for one, other in pairs:
        found = _paired(*(read.get(want, NOTHING) for want in wants[one.pk]))
        is_whole = one.is_short and other.is_short
        if not is_whole and len(found.x) < EMPTIED:
            emptied.setdefault(one.metric, []).append(one.run)
        elif len(found.x):
            lines[one.metric][one.run] = line_of(found, 0.0, window, is_whole)
            thinned += [] if is_whole else [(one, other, wants[one.pk][0].stride, found)]
    if window != EVERYWHERE and thinned:
        for one, found, is_whole in _within(thinned, window, most, most_scanned):
            lines[one.metric][one.run] = line_of(found, 0.0, window, is_whole)
    irregular = {run for runs in emptied.values() for run in runs}
    values = _every(irregular, x)
    for metric, runs in emptied.items():
        for run, points in _every(runs, metric).items():
            if len((found := _paired(points, values.get(run, NOTHING))).x):
                lines[metric][run] = line_of(_chosen(found, window, most), 0.0, window, False)
    return lines


def _within(
    pairs: Sequence[tuple[SeriesEnds, SeriesEnds, int, Points]], window: Window, most: int, most_scanned: int
) -> Iterator[tuple[SeriesEnds, Points, bool]]:
    """Of pairs (series, the one across, the stride of what was found, what was found): those within the window of x
    thinned anew, where that is finer, beside what was found beyond it; and whether none is left out. Two queries."""
    scanned = {one for own, other, _, _ in pairs for one in (own, other)}
    least = INDEXED_STRIDE if sum(one.last // one.apart for one in scanned) > most_scanned else 1
    strides = {other: min(FARTHEST, lcm(other.apart, least)) for _, other, _, _ in pairs}
    while sum(other.last // stride for other, stride in strides.items()) > most_scanned // least:
        strides = {other: min(FARTHEST, 2 * stride) for other, stride in strides.items()}
    wants = {
        other: Want(other.pk, stride, -FARTHEST, FARTHEST, other.last) for other, stride in strides.items()
    }
    inside = read_points(wants.values(), "step", window)
    finer = []
    for own, other, before, found in pairs:
        points = inside.get(wants[other], NOTHING)
        stride = lcm(strides[other], own.apart)
        while stride < before and (points.step % stride == 0).sum() > most:
            stride *= 2
        if stride < before:
            kept = points.step % stride == 0
            finer.append((own, found, stride, Points(*(column[kept] for column in points))))
    read = read_at({own.pk: points.step for own, _, _, points in finer}, AT_ANY if least == 1 else AT_INDEXED)
    for own, found, stride, points in finer:
        beyond = (found.x < window[0]) | (found.x > window[1])
        new = _paired(read.get(own.pk, NOTHING), points)
        yield (
            own,
            Points(*(np.r_[old[beyond], add] for old, add in zip(found, new, strict=True))),
            stride == 1,
        )


def _every(runs: Collection[str], metric: str) -> dict[str, Points]:
    found = arrays_of(runs, metric, ("step", "step", "value")) if runs else {}
    return {run: Points(*columns) for run, columns in found.items()}


def _chosen(points: Points, window: Window, most: int) -> Points:
    """All beyond the window, and of those within it what other charts choose."""
    within = (points.x >= window[0]) & (points.x <= window[1])
    inside = np.flatnonzero(within)
    places = inside[choose(points.step[inside], points.y[inside], most).places]
    return Points(*(column[np.r_[np.flatnonzero(~within), places]] for column in points))


def _want_pairs(one: SeriesEnds, other: SeriesEnds, most: int) -> tuple[Want, Want]:
    """All of two short series; else the steps that both have, as far as both go."""
    both = one._replace(
        apart=min(FARTHEST, lcm(one.apart, other.apart)),
        last=min(one.last, other.last),
        is_short=one.is_short and other.is_short,
    )
    want = want_of(both, EVERYWHERE, most)
    return want, want._replace(pk=other.pk)


def _paired(points: Points, across: Points) -> Points:
    """The points [m] at whose step the other series has a value, and that as x."""
    order = np.argsort(across.step, kind="stable")
    steps = across.step[order]
    at = np.searchsorted(steps, points.step, side="right") - 1
    both = (at >= 0) & (steps[at] == points.step) if len(steps) else np.zeros(len(at), bool)
    return Points(points.step[both], across.y[order][at[both]], points.y[both])
