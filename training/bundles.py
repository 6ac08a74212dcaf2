"""Which devices a run holds, as the bundles that its driver asks Ray for, and whether nodes have room for them.

Not shared: engine 0, engine 1, ..., rank 0, rank 1, ... have a bundle each. Shared: a bundle holds engines and ranks
that take turns on its devices. Bundles are packed onto as few nodes as can be, and may lie on several. Reward workers
have one each. The driver itself holds none: it waits for the others most of the time.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from training.schema import Resources

Amounts = dict[str, float]  # of "CPU" and "GPU"


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
    """The bundles of a run's engines and ranks."""
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


def engine_bundle(resources: Resources) -> Amounts:
    """Of one engine alone, as a benchmark of a checkpoint runs it; one with GPUs asks for no cores."""
    gpus = resources.gpus_per_generator
    return _amounts(0 if gpus else resources.cpus_per_generator, gpus)


# --- room -----------------------------------------------------------------------------------------------------


def place(bundles: Iterable[Amounts], nodes: Sequence[Amounts]) -> list[tuple[int, Amounts]] | None:
    """What each node (by its number; it has "CPU" and "GPU") would hold: the largest bundles first, GPUs before CPUs,
    each on the fullest node that it fits. None where that finds no place for one."""
    left = [(node["GPU"], node["CPU"], number) for number, node in enumerate(nodes)]
    placed = []
    kinds = Counter((bundle.get("GPU", 0.0), bundle["CPU"]) for bundle in bundles)
    for (gpus, cpus), count in sorted(kinds.items(), reverse=True):
        for free_gpus, free_cpus, number in sorted(one for one in left if one[0] >= gpus and one[1] >= cpus):
            # The fullest node stays the fullest while it is filled.
            times = min(count, _times(free_gpus, gpus), _times(free_cpus, cpus))
            left[number] = free_gpus - times * gpus, free_cpus - times * cpus, number
            placed.append((number, _amounts(times * cpus, times * gpus)))
            count -= times
            if not count:
                break
        if count:
            return None
    return placed


def _times(free: float, amount: float) -> int:
    return int(free / amount + 1e-9) if amount else sys.maxsize


def shortage(bundles: list[Amounts], nodes: Sequence[Amounts]) -> str:
    """Why these nodes could not hold the bundles even if nothing else ran; "" where they could."""
    for name, amount in needed(bundles).items():
        if total(nodes, name) < amount:
            return f"needs {amount:g} {name}, the cluster has only {total(nodes, name):g}"
    for bundle in bundles:
        if not any(all(node[name] >= amount for name, amount in bundle.items()) for node in nodes):
            largest = ", ".join(f"{max(node[name] for node in nodes):g} {name}" for name in bundle)
            return f"no node has {_words(bundle)}; the largest has {largest}"
    if place(bundles, nodes) is None:
        return f"bundles of {_each(bundles)} do not fit beside each other on nodes with {_each(nodes)}"
    return ""


def needed(bundles: Sequence[Amounts]) -> Amounts:
    """Of all bundles together, by name."""
    return {name: total(bundles, name) for name in sorted({name for bundle in bundles for name in bundle})}


def total(many: Iterable[Amounts], name: str) -> float:
    """Of "CPU" or "GPU"."""
    return sum(amounts.get(name, 0.0) for amounts in many)


def _words(amounts: Amounts) -> str:
    return " and ".join(f"{amount:g} {name}" for name, amount in amounts.items() if amount) or "nothing"


def _each(many: Iterable[Amounts]) -> str:
    counts = Counter(map(_words, many))
    return "; ".join(f"{count} x {words}" if count > 1 else words for words, count in counts.items())
