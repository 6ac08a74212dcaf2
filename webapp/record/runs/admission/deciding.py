"""Which queued runs go to the cluster now, which runs step back for them, and what the others wait for. Pure.

A run goes when the cluster has room for all of its bundles beside those of the runs at work; at most one goes ahead, to
the room that ended runs are about to give back. The first run without room is the head: it keeps its turn until its
place is free, so that large runs start, too. A later one passes it only where estimates exist and say that the head
does not start later for it.

Who comes first: higher priorities, then the project with the least use for its share, then the oldest run.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush, heapreplace
from itertools import groupby, islice
from math import inf
from operator import attrgetter, itemgetter

from training.bundles import shortage
from webapp.record.runs.admission.parts import (
    AtWork,
    Bundles,
    Cluster,
    Decision,
    Holding,
    Queued,
    Room,
    Share,
    Span,
    Wait,
    Why,
)

LOOKED_AT = 500  # runs in the order of the queue that may go now
TOLD = 100  # runs in the order of the queue of which it is said when they start
MOST_AHEAD_OF_GROWTH = 8  # runs that wait inside Ray for nodes, where the cluster grows
AGES_EVERY = timedelta(hours=6)  # of waiting: then a run counts as of the next priority, so that none starves
TOP_LEVEL = 2


def decide(
    queue: Sequence[Queued], at_work: Sequence[AtWork], cluster: Cluster, shares: Mapping[int, Share]
) -> Decision:
    """What is done now. `queue` is `in_order`, its first LOOKED_AT at least."""
    turn = _Turn(at_work, cluster, shares)
    for run in queue[:LOOKED_AT]:
        turn.consider(run)
    return Decision(turn.started, turn.step_back(), turn.waits(), turn.now.total)


@dataclass
class _Turn:
    """`now` is what is free, `soon` that with what ended runs still hold. `ahead`: runs handed over without room."""

    at_work: Sequence[AtWork]
    cluster: Cluster
    shares: Mapping[int, Share]
    ahead: int = 0
    head: Queued | None = None
    opens_at: float = inf  # hours until the head's place is free, at the earliest
    opened: Room | None = None  # what is free then, at the latest; None: not known
    started: list[str] = field(default_factory=list)
    begun: list[tuple[int, Span]] = field(default_factory=list)  # project, and how long it lasts
    waiting: list[tuple[Queued, Why]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.soon = Room(self.cluster.nodes or ())
        self.soon.take(self.cluster.others)
        self.held: dict[str, tuple[Span, Holding]] = {}
        self.room = {
            project: share.most_at_work - share.at_work
            for project, share in self.shares.items()
            if share.most_at_work is not None
        }
        self._lacks: dict[int, bool] = {}
        self._in_the_way: set[int] = set()
        for one in self.at_work:
            if one.holds is not None and not one.waits_in_ray:
                self._hold(one, one.holds)
        self.now = self.soon.copy()
        self.now.take(self.cluster.ended)
        for one in self.at_work:
            if one.run not in self.held:
                self._expect(one)

    def _hold(self, one: AtWork, holding: Holding) -> None:
        self.soon.take(holding)
        self.held[one.run] = one.left, holding

    def _expect(self, one: AtWork) -> None:
        """Ray has not said where it is; where it has no room, it went ahead."""
        if self.cluster.nodes is None:
            self.ahead += not (one.has_begun or one.is_stopping)
            return
        holding = None if one.waits_in_ray else self.now.find(one.bundles)
        if holding is not None:
            self.now.take(holding)
        else:
            self.ahead += not one.has_begun
            holding = self.soon.find(one.bundles)
        if holding is not None:
            self._hold(one, holding)

    def consider(self, run: Queued) -> None:
        """Start it, or note what it waits for."""
        if self._is_too_large(run):
            self.waiting.append((run, Why.TOO_LARGE))
        elif self.room.get(run.project, 1) <= 0:
            self.waiting.append((run, Why.PROJECT))
        elif not (self._may_pass(run) if self.head else self._goes(run)):
            self.waiting.append((run, Why.CLUSTER))
            if self.head is None:
                self._wait_for(run)

    def _is_too_large(self, run: Queued) -> bool:
        if self.cluster.nodes is None or self.cluster.grows:
            return False
        key = id(run.bundles)
        if key not in self._lacks:
            self._lacks[key] = bool(shortage(list(run.bundles), self.cluster.nodes))
        return self._lacks[key]

    def _goes(self, run: Queued) -> bool:
        grows = self.cluster.grows
        is_known = self.cluster.nodes is not None
        if is_known and (grows or not self.ahead) and (holding := self.now.find(run.bundles)) is not None:
            self._start(run, holding)
            return True
        if self.ahead >= (MOST_AHEAD_OF_GROWTH if grows else 1):
            return False
        soon = self.soon.find(run.bundles) if is_known else None
        if soon is None and is_known and not grows:
            return False
        self.ahead += 1
        self._start(run, soon or ())
        return True

    def _start(self, run: Queued, holding: Holding) -> None:
        self.started.append(run.run)
        self.begun.append((run.project, run.lasts))
        self.now.take(holding)
        self.soon.take(holding)
        self.held[run.run] = run.lasts, holding
        if run.project in self.room:
            self.room[run.project] -= 1

    # -- passing -----------------------------------------------------------------------------------------------

    def _wait_for(self, run: Queued) -> None:
        self.head = run
        if (first := self._opening(run.bundles, latest=False)) is not None:
            self.opens_at = first[0]
        if (last := self._opening(run.bundles, latest=True)) is not None:
            self.opened = last[1]

    def _opening(self, bundles: Bundles, *, latest: bool) -> tuple[float, Room] | None:
        """Hours until there is room for them as runs at work end, and what is free then; None where not known."""
        room = self.soon.copy()
        if room.find(bundles) is not None:
            return 0.0, room
        held = ((left.end(latest=latest), holding) for left, holding in self.held.values())
        ends = sorted(held, key=itemgetter(0))
        for at, holding in ends:
            room.give(holding)
            if at < inf and room.find(bundles) is not None:
                return at, room
        return None

    def _may_pass(self, run: Queued) -> bool:
        """Whether it ends before the head's place is free, or leaves the head its place."""
        if self.ahead or self.opens_at == inf or (holding := self.now.find(run.bundles)) is None:
            return False
        if run.lasts.end(latest=True) > self.opens_at and not self._leaves_place(run, holding):
            return False
        self._start(run, holding)
        return True

    def _leaves_place(self, run: Queued, holding: Holding) -> bool:
        if self.head is None or self.opened is None or id(run.bundles) in self._in_the_way:
            return False
        beside = self.opened.copy()
        beside.take(holding)
        if beside.find(self.head.bundles) is None:
            self._in_the_way.add(id(run.bundles))
            return False
        self.opened = beside
        return True

    # -- stepping back -----------------------------------------------------------------------------------------

    def step_back(self) -> list[str]:
        """Runs of lower priorities whose places the head needs, the youngest of the lowest first; none unless they are
        enough, and none where those that stop already are."""
        if self.head is None or self.ahead or self.cluster.nodes is None:
            return []
        room = self.soon.copy()
        for one in self.at_work:
            if one.is_stopping and one.run in self.held:
                room.give(self.held[one.run][1])
        chosen: list[AtWork] = []
        for one in self._willing(self.head.priority):
            if room.find(self.head.bundles) is not None:
                break
            room.give(self.held[one.run][1])
            chosen.append(one)
        return self._needed_of(chosen, room, self.head.bundles)

    def _willing(self, priority: int) -> list[AtWork]:
        able = [
            one
            for one in self.at_work
            if one.may_step_back and one.has_begun and not one.is_stopping
            and one.priority < priority and one.run in self.held
        ]  # fmt: skip
        youngest = sorted(able, key=lambda one: one.began.timestamp() if one.began else inf, reverse=True)
        return sorted(youngest, key=lambda one: one.priority)

    def _needed_of(self, chosen: list[AtWork], room: Room, bundles: Bundles) -> list[str]:
        if room.find(bundles) is None:
            return []
        found = []
        for one in chosen:
            room.take(self.held[one.run][1])
            if room.find(bundles) is None:
                room.give(self.held[one.run][1])
                found.append(one.run)
        return found

    # -- waiting -----------------------------------------------------------------------------------------------

    def waits(self) -> list[Wait]:
        """Of the first TOLD."""
        told = self.waiting[:TOLD]
        for_cluster = [run for run, why in told if why == Why.CLUSTER]
        starts = dict(zip((run.run for run in for_cluster), self._starts(for_cluster), strict=True))
        starts |= self._places([run for run, why in told if why == Why.PROJECT])
        return [Wait(run, why, starts.get(run.run)) for run, why in told]

    def _places(self, runs: Sequence[Queued]) -> dict[str, Span | None]:
        """When each gets a place of its project at the earliest: as runs of the project at work end, in order."""
        ends: dict[int, list[float]] = {}
        for project, left in [*((one.project, one.left) for one in self.at_work), *self.begun]:
            ends.setdefault(project, []).append(left.least)
        found: dict[str, Span | None] = {}
        of_project = attrgetter("project")
        for project, own in groupby(sorted(runs, key=of_project), key=of_project):
            known = sorted(ends.get(project, ()))
            most = self.shares[project].most_at_work or 0
            times = known[max(0, len(known) - most) :]  # more may be at work than may be now
            found |= {run.run: Span(at) for run, at in zip(own, times, strict=False)}
        return found

    def _starts(self, runs: Sequence[Queued]) -> list[Span | None]:
        """When each starts if they start one after the other, none before one ahead of it."""
        if self.cluster.nodes is None:
            return [None] * len(runs)
        first, last = (self._one_after_the_other(runs, latest=latest) for latest in (False, True))
        return [_between(one, other) for one, other in zip(first, last, strict=True)]

    def _one_after_the_other(self, runs: Sequence[Queued], *, latest: bool) -> list[float]:
        room, at = self.soon.copy(), 0.0
        ends = [
            (left.end(latest=latest), number, holding)
            for number, (left, holding) in enumerate(self.held.values())
        ]
        heapify(ends)
        starts: list[float] = []
        for run in runs:
            while (holding := room.find(run.bundles)) is None and ends and ends[0][0] < inf:
                at, _, given = heappop(ends)
                room.give(given)
            if holding is None:
                break
            starts.append(at)
            room.take(holding)
            heappush(ends, (at + run.lasts.end(latest=latest), len(self.held) + len(starts), holding))
        return starts + [inf] * (len(runs) - len(starts))


def _between(one: float, other: float) -> Span | None:
    """The order of ends may differ, so either may be the earlier."""
    first, last = sorted((one, other))
    return None if first == inf else Span(first, None if last == inf else last)


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
