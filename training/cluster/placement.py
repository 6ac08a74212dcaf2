"""An observable wait for the place of a run's bundles (`training.bundles`) on Ray.

Whether the cluster itself still answers, and calls to it that cannot hold up the run.

Ray's calls to its head have no timeout that a run can rely on: without the head they block for a minute, and then Ray
ends the process without a word. So they are made in threads, and a run whose head stays silent ends before that.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup

from training.bundles import Amounts, all_bundles, needed, shortage, total
from training.errors import EngineLost, Infrastructure, last_line
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
    """Seconds between reports, until a cluster that is too small (it may be growing) is given up, for any place, and
    for engines and ranks to load the model."""

    report: float = 10.0
    too_small: float = 60.0
    full: float = 24 * 3600.0
    loading: float = 1800.0


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
    ready = asyncio.ensure_future(group.ready())
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
    have = cores or (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    cores_asked = int(total(all_bundles(resources), "CPU"))
    if cores_asked > have and os.environ.get("HEADROOM_OVERSUBSCRIBE") != "1":
        raise ClusterError(
            f"too few devices: the run needs {cores_asked} CPU, this machine has {have} ({_asked_by(resources)})"
        )
    return max(cores_asked, have)


@dataclass(frozen=True)
class Pulse:
    """Seconds between two questions to the head, for an answer, and of silence until it is given up.

    A local head does not come back. Another one may be started again, and Ray waits 60 seconds for that; a run that is
    to stop does not.
    """

    every: float = 2.0
    answer: float = 4.0
    local: float = 12.0
    remote: float = 50.0


def lost_node() -> str:
    """Asks the head: "" while this machine's node is a part of the cluster, else what has happened to it."""
    own = ray.get_runtime_context().get_node_id()
    nodes: list[dict[str, Any]] = ray.nodes()
    is_there = any(node["NodeID"] == own and node["Alive"] for node in nodes)
    return "" if is_there else "Ray on the driver's machine (raylet) is gone"


async def watch_head(
    *,
    is_local: bool,
    is_stopping: Callable[[], bool],
    pulse: Pulse = Pulse(),  # noqa: B008 - frozen
    ask: Callable[[], str] = lost_node,
) -> PartGone:
    """Returns when the cluster is lost: what to end the run with."""
    loop = asyncio.get_running_loop()
    answered_at = loop.time()
    while True:
        patience = pulse.local if is_local or is_stopping() else pulse.remote
        try:
            if lost := await in_thread(ask, pulse.answer):
                return PartGone(f"the Ray cluster is lost: {lost}")
            answered_at = loop.time()
        except TimeoutError:
            why = "no answer"
        except Exception as error:
            why = last_line(error)
        if (silent := loop.time() - answered_at) >= patience:
            return PartGone(f"the Ray cluster is lost: its head has not answered for {silent:.0f} s ({why})")
        await asyncio.sleep(pulse.every)
