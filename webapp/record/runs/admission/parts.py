"""What a decision on the queue is made of: plain data, in whole devices and hours.

Jobs beside runs that take devices, too, wait in the same queue: their packages say here where they are found.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import inf
from typing import NamedTuple

from training.bundles import Amounts, needed, place, total

Holding = Sequence[tuple[int, Amounts]]  # number of a node, and what is held of it
Bundles = tuple[Amounts, ...]  # of equal runs the same object


@dataclass(frozen=True)
class Span:
    """Hours from now. `most` None: not known."""

    least: float = 0.0
    most: float | None = None

    def end(self, *, latest: bool) -> float:
        """Of the two; infinite where it is not known."""
        return self.least if not latest else inf if self.most is None else max(self.least, self.most)


class Queued(NamedTuple):
    """A run that waits. `made_at` orders those of a project, `since` is when it began to wait; `hours`: device-hours
    that it may still use. `bundles` and how long it `lasts` need be known of the first LOOKED_AT only."""

    run: str
    project: int
    priority: int
    made_at: datetime
    since: datetime
    hours: float
    bundles: Bundles = ()
    lasts: Span = Span()


@dataclass(frozen=True)
class AtWork:
    """A run that was handed over and has not ended. `holds`: its bundles on nodes, where Ray has said so."""

    run: str
    project: int
    priority: int
    bundles: Bundles
    holds: Holding | None = None
    left: Span = Span()
    waits_in_ray: bool = False
    has_begun: bool = True  # its driver has said that it has its devices
    is_stopping: bool = False
    may_step_back: bool = False
    began: datetime | None = None


@dataclass(frozen=True)
class Share:
    """Of a project. `used`: device-hours lately, with what its runs at work may still use; `at_work` of its runs are,
    of `most_at_work` that may be (None: any number)."""

    weight: float = 1.0
    used: float = 0.0
    at_work: int = 0
    most_at_work: int | None = None


@dataclass(frozen=True)
class Cluster:
    """`nodes` (with "CPU" and "GPU" each): all that they have; None: not known. `others`: what others than our runs
    hold, `ended`: what runs of ours that have ended still do. `grows`: nodes are added where runs wait inside Ray."""

    nodes: Sequence[Amounts] | None
    others: Holding = ()
    ended: Holding = ()
    grows: bool = False


class Why(StrEnum):
    """What keeps a queued run from going."""

    TOO_LARGE = "too large"  # the whole cluster could not hold it
    PROJECT = "project"  # its project has no place for it
    CLUSTER = "cluster"


@dataclass(frozen=True)
class Wait:
    """`starts`: when, None where nothing is known of it."""

    run: Queued
    why: Why
    starts: Span | None = None


@dataclass(frozen=True)
class Decision:
    """Runs to hand over in this order, runs at work that are to step back, what others wait for in the queue's order,
    and what is free of the cluster after the hand-over."""

    start: list[str]
    step_back: list[str]
    waits: list[Wait]
    free: Amounts


class Room:
    """What nodes have free. Bundles that found no place are not looked for again until something is given back."""

    def __init__(self, nodes: Iterable[Amounts]) -> None:
        self.free = [dict(node) for node in nodes]
        self.total = {name: total(self.free, name) for name in ("CPU", "GPU")}
        self._full: set[int] = set()

    def copy(self) -> "Room":
        return Room(self.free)

    def find(self, bundles: Bundles) -> Holding | None:
        """Where they would go."""
        if id(bundles) in self._full:
            return None
        enough = all(self.total[name] >= amount for name, amount in needed(bundles).items())
        found = place(bundles, self.free) if enough else None
        if found is None:
            self._full.add(id(bundles))
        return found

    def take(self, holding: Holding) -> None:
        self._change(holding, -1)

    def give(self, holding: Holding) -> None:
        self._change(holding, 1)
        self._full.clear()

    def _change(self, holding: Holding, sign: int) -> None:
        for number, amounts in holding:
            for name, amount in amounts.items():
                self.free[number][name] += sign * amount
                self.total[name] += sign * amount


@dataclass(frozen=True)
class Guest:
    """A job that waits or is at work. `has_begun`: Ray has given it its devices. How long it lasts is not known, and
    its device-hours count for no share."""

    job: str
    name: str
    project_id: int
    priority: int
    bundles: Bundles
    made_at: datetime
    is_queued: bool
    has_begun: bool = False
    is_stopping: bool = False
    budget_hours: float | None = None
    used_hours: float | None = None

    def queued(self) -> Queued:
        """In the queue."""
        return Queued(self.job, self.project_id, self.priority, self.made_at, self.made_at, 0.0, self.bundles)

    def at_work(self, stopping: Span) -> AtWork:
        """On the cluster; `stopping`: how long one lasts that is to stop."""
        return AtWork(
            self.job, self.project_id, self.priority, self.bundles, left=stopping if self.is_stopping else Span(),
            has_begun=self.has_begun, is_stopping=self.is_stopping,
        )  # fmt: skip


SOURCES: list[Callable[[], Sequence[Guest]]] = []


def guests() -> list[Guest]:
    """All of them. A query for each source."""
    return [guest for source in SOURCES for guest in source()]
