"""An observable wait for the place of a run's bundles (`training.bundles`) on Ray."""

import asyncio
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup

from training.bundles import Amounts, all_bundles, needed, shortage, total
from training.errors import EngineLost, Infrastructure
from training.schema import Resources
from training.waiting import Switchboard, in_thread

log = logging.getLogger("training")

ANSWER_SECONDS = 60.0  # of Ray's head, at the start


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
        f"needs {amount:g} {name}; {free.get(name, 0):g} free, the cluster has {total(nodes, name):g}"
        for name, amount in needed(bundles).items()
    )


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
    cores_asked = int(total(all_bundles(resources), "CPU"))
    if cores_asked > have and os.environ.get("HEADROOM_OVERSUBSCRIBE") != "1":
        raise ClusterError(
            f"too few devices: the run needs {cores_asked} CPU, this machine has {have} ({_asked_by(resources)})"
        )
    return max(cores_asked, have)


def _usable_cores() -> int:
    """Cores that this process may run on; containers and batch systems allow fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


async def _as_coroutine(reference: Any) -> Any:
    return await reference
