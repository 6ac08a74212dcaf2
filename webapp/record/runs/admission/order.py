"""Who comes first: higher priorities, then the project with the least use for its share, then the oldest run."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace
from itertools import islice

from webapp.record.runs.admission.parts import Queued, Share

AGES_EVERY = timedelta(hours=6)  # of waiting: then a run counts as of the next priority, so that none starves
TOP_LEVEL = 2


def in_order(
    queue: Iterable[Queued], shares: Mapping[int, Share], now: datetime, *, most: int = sys.maxsize
) -> list[Queued]:
    """Who comes first, at most so many. What comes before counts as used by its project for what comes after."""
    levels: dict[int, dict[int, list[Queued]]] = {}
    for run in queue:
        levels.setdefault(_level(run, now), {}).setdefault(run.project, []).append(run)
    used = {project: share.used for project, share in shares.items()}
    ordered: list[Queued] = []
    for level in sorted(levels, reverse=True):
        ordered += islice(_shared_out(levels[level], shares, used), most - len(ordered))
    return ordered


def _level(run: Queued, now: datetime) -> int:
    return min(TOP_LEVEL, run.priority + int((now - run.since) / AGES_EVERY))


def _shared_out(
    lanes: Mapping[int, list[Queued]], shares: Mapping[int, Share], used: dict[int, float]
) -> Iterator[Queued]:
    """Runs of one level; adds to `used`."""

    weights = {project: shares.get(project, Share()).weight for project in lanes}

    def key(project: int, number: int) -> tuple[float, datetime, str, int, int]:
        run = lanes[project][number]
        return used.get(project, 0.0) / weights[project], run.made_at, run.run, project, number

    for lane in lanes.values():
        lane.sort(key=lambda run: (run.made_at, run.run))
    heads = [key(project, 0) for project in lanes]
    heapify(heads)
    while heads:
        *_, project, number = heads[0]
        run = lanes[project][number]
        yield run
        used[project] = used.get(project, 0.0) + run.hours
        if number + 1 < len(lanes[project]):
            heapreplace(heads, key(project, number + 1))
        else:
            heappop(heads)
