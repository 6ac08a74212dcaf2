"""Whether the cluster itself still answers, and calls to it that cannot hold up the run.

Ray's calls to its head have no timeout that a run can rely on: without the head they block for a minute, and then Ray
ends the process without a word. So they are made in threads, and a run whose head stays silent ends before that.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray

from training.cluster.placement import PartGone
from training.errors import last_line
from training.waiting import in_thread


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
