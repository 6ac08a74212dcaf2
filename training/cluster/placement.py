"""Where a run's engines and ranks go: one bundle of devices for each, and an observable wait for them.

Not shared: engine 0, engine 1, ..., rank 0, rank 1, ... have a bundle each. Shared: a bundle holds engines and ranks
that take turns on its devices. Bundles are packed onto as few nodes as can be, and may lie on several.
"""

import asyncio
import logging
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup

from training.errors import EngineLost, Infrastructure
from training.schema import Resources
from training.waiting import Switchboard, in_thread

log = logging.getLogger("training")

ANSWER_SECONDS = 60.0  # of Ray's head, at the start

Amounts = dict[str, float]  # of "CPU" and "GPU"


class ClusterError(RuntimeError):
    """The cluster cannot place the run, or lost a part of it; the message is one line and names the part."""


class PartGone(ClusterError, Infrastructure):
    """A part of the run died, or the cluster is lost."""


class EngineGone(PartGone, EngineLost):
    """A generator died."""


@dataclass(frozen=True)
class Patience:
    """Seconds between reports, until a cluster that is too small (it may be growing) is given up, and for any place."""

    report: float = 10.0
    too_small: float = 60.0
    full: float = 24 * 3600.0


@dataclass(frozen=True)
class Seat:
    """What one engine or rank asks Ray for, and in which bundle."""

    bundle: int
    cpus: float
    gpus: float


@dataclass(frozen=True)
class Plan:
    """All bundles, and a seat for each engine and each rank."""

    bundles: list[Amounts]
    engines: list[Seat]
    ranks: list[Seat]


def make_plan(resources: Resources) -> Plan:
    """The bundles of a run."""
    return _shared_plan(resources) if resources.shared else _separate_plan(resources)


def _separate_plan(resources: Resources) -> Plan:
    engines = [
        Seat(number, resources.cpus_per_generator, resources.gpus_per_generator)
        for number in range(resources.num_generators)
    ]
    gpus = 1 if resources.trainer_gpus else 0
    ranks = [
        Seat(len(engines) + number, resources.cpus_per_trainer, gpus)
        for number in range(resources.num_trainers)
    ]
    return Plan([_amounts(seat.cpus, seat.gpus) for seat in engines + ranks], engines, ranks)


def _shared_plan(resources: Resources) -> Plan:
    """As many bundles as both counts allow. Ranks hold the GPUs; an engine is told which those of its bundle are, since
    Ray gives an actor several whole GPUs or a share of one, but no shares of several."""
    engines, ranks = resources.num_generators, resources.num_trainers
    count = min(engines, ranks)
    cpus = max(resources.generator_cpus, resources.trainer_cpus) / count
    return Plan(
        [_amounts(cpus, resources.trainer_gpus // count) for _ in range(count)],
        [Seat(number * count // engines, cpus / 2 / (engines // count), 0) for number in range(engines)],
        [
            Seat(number * count // ranks, cpus / 2 / (ranks // count), 1 if resources.trainer_gpus else 0)
            for number in range(ranks)
        ],
    )


def _amounts(cpus: float, gpus: float) -> Amounts:
    return {"CPU": float(cpus)} | ({"GPU": float(gpus)} if gpus else {})


def reward_bundles(resources: Resources) -> list[Amounts]:
    """Of reward workers: one each, in a group of their own, spread over the nodes."""
    return [_amounts(1, 0)] * (resources.reward_workers or 0)


def all_bundles(resources: Resources) -> list[Amounts]:
    """Of engines, ranks and reward workers."""
    return make_plan(resources).bundles + reward_bundles(resources)


async def wait_for_place(
    group: PlacementGroup,
    resources: Resources,
    switch: Switchboard,
    *,
    may_grow: bool,
    patience: Patience = Patience(),  # noqa: B008 - frozen
) -> None:
    """Return when the bundles of the group are reserved; says every `patience.report` seconds what is lacking.

    Raises ClusterError at once where the devices are too few and the cluster cannot grow, and after
    `patience.too_small` where it could; Stopped.
    """
    bundles = all_bundles(resources)
    too_small = shortage(bundles, await in_thread(node_amounts, ANSWER_SECONDS))
    if too_small and not may_grow:
        raise ClusterError(f"too few devices: {too_small} ({_asked_by(resources)})")
    ready = asyncio.ensure_future(_as_coroutine(group.ready()))
    waited = 0.0
    try:
        while not ready.done():
            await switch.result(
                asyncio.wait({ready}, timeout=patience.report), what="a place", timeout=2 * patience.report
            )
            if not ready.done():
                waited += patience.report
                with suppress(TimeoutError):  # a head that is silent for long ends the run elsewhere
                    await in_thread(partial(_report, bundles, resources, waited, patience), patience.report)
        ready.result()
    finally:
        ready.cancel()


def _report(bundles: list[Amounts], resources: Resources, waited: float, patience: Patience) -> None:
    nodes = node_amounts()
    too_small = shortage(bundles, nodes)
    lacking = too_small or _occupied(bundles, nodes)
    log.info("waiting for a place for %.0f s: %s", waited, lacking)
    if (too_small and waited >= patience.too_small) or waited >= patience.full:
        raise ClusterError(f"no place after {waited:.0f} s: {lacking} ({_asked_by(resources)})")


def node_amounts() -> list[Amounts]:
    """CPUs and GPUs of every node that is alive, busy or not."""
    nodes: list[dict[str, Any]] = [node for node in ray.nodes() if node["Alive"]]
    return [{name: node["Resources"].get(name, 0.0) for name in ("CPU", "GPU")} for node in nodes]


def _occupied(bundles: list[Amounts], nodes: list[Amounts]) -> str:
    free = ray.available_resources()
    return ", ".join(
        f"needs {needed:g} {name}; {free.get(name, 0):g} free, the cluster has {_total(nodes, name):g}"
        for name, needed in _needed(bundles).items()
    )


def shortage(bundles: list[Amounts], nodes: list[Amounts]) -> str:
    """Why these nodes could not hold the bundles even if nothing else ran; "" where they could."""
    for name, needed in _needed(bundles).items():
        if _total(nodes, name) < needed:
            return f"needs {needed:g} {name}, the cluster has only {_total(nodes, name):g}"
    for bundle in bundles:
        if not any(_fits(bundle, node) for node in nodes):
            largest = ", ".join(f"{max(node[name] for node in nodes):g} {name}" for name in bundle)
            return f"no node has {_words(bundle)}; the largest has {largest}"
    if not _fit_together(bundles, nodes):
        return f"bundles of {_each(bundles)} do not fit beside each other on nodes with {_each(nodes)}"
    return ""


def _fit_together(bundles: list[Amounts], nodes: list[Amounts]) -> bool:
    """Whether a place is found by taking the largest bundles first, GPUs before CPUs."""
    free = [dict(node) for node in nodes]
    for bundle in sorted(bundles, key=lambda one: (one.get("GPU", 0), one["CPU"]), reverse=True):
        fitting = [node for node in free if _fits(bundle, node)]
        if not fitting:
            return False
        node = min(fitting, key=lambda one: (one["GPU"], one["CPU"]))  # the fullest
        for name, amount in bundle.items():
            node[name] -= amount
    return True


def _fits(bundle: Amounts, node: Amounts) -> bool:
    return all(node[name] >= amount for name, amount in bundle.items())


def _needed(bundles: list[Amounts]) -> Amounts:
    return {name: _total(bundles, name) for name in sorted({name for bundle in bundles for name in bundle})}


def _total(many: list[Amounts], name: str) -> float:
    return sum(amounts.get(name, 0.0) for amounts in many)


def _words(amounts: Amounts) -> str:
    return " and ".join(f"{amount:g} {name}" for name, amount in amounts.items() if amount) or "nothing"


def _each(many: list[Amounts]) -> str:
    counts = Counter(map(_words, many))
    return "; ".join(f"{count} x {words}" if count > 1 else words for words, count in counts.items())


def _asked_by(resources: Resources) -> str:
    """The recipe's fields that ask for devices."""
    fields = ["generator_gpus", "trainer_gpus", "generator_cpus", "trainer_cpus", "reward_workers"]
    return ", ".join(
        f"resources.{name} {value}" for name in fields if (value := getattr(resources, name))
    ) + (", shared" if resources.shared else "")


def local_cores(resources: Resources, cores: int | None = None) -> int:
    """CPUs of a cluster that is this machine alone: its `cores`, which must be as many as the run is counted for.

    Raises ClusterError for fewer: a run that shares a core counts more compute than it had. HEADROOM_OVERSUBSCRIBE=1
    lets it, for tests of many engines and ranks.
    """
    have = cores or _usable_cores()
    needed = int(sum(bundle["CPU"] for bundle in all_bundles(resources)))
    if needed > have and os.environ.get("HEADROOM_OVERSUBSCRIBE") != "1":
        raise ClusterError(
            f"too few devices: the run needs {needed} CPU, this machine has {have} ({_asked_by(resources)})"
        )
    return max(needed, have)


def _usable_cores() -> int:
    """Cores that this process may run on; containers and batch systems allow fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


async def _as_coroutine(reference: Any) -> Any:
    return await reference
