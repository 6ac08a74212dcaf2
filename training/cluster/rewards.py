"""Rewards on the cluster: one actor with one core for each reward worker, spread over the nodes.

A judgement is what it is on the driver's machine, beside the actor: the same process, sandbox and time limit
(`training.verifiers.service`). An actor that dies, or no longer answers, is replaced, and what it had is judged by
another one.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from training.bundles import reward_bundles
from training.cluster.actors import Whereabouts
from training.cluster.parts import Part, first_error_or_all, in_time
from training.cluster.placement import PartGone, Patience, wait_for_place
from training.errors import last_line
from training.schema import Resources
from training.verifiers.base import Verdict, Verifier
from training.verifiers.service import (
    GRACE_SECONDS,
    KILL_SECONDS,
    START_SECONDS,
    RewardError,
    Unanswered,
    Verification,
)
from training.waiting import Switchboard, in_thread

log = logging.getLogger("training")

START_TIMEOUT_SECONDS = 300.0  # for an actor's process; Ray may have to start it from a slow disk
KILL_TIMEOUT_SECONDS = 10.0
IN_FLIGHT = 2  # judgements that a worker has: the next one is there when it has done one
MAX_DEATHS = 3  # of workers, over one judgement


@dataclass(order=True, frozen=True)
class _Room:
    """For one judgement more. `place`: how many a worker has then before it. Without a worker: all are gone."""

    place: int
    part: Any = field(compare=False)


class RewardGone(PartGone):
    """A reward worker died, or does not answer."""


class RewardActor:
    """A reward worker: judges one response at a time."""

    def __init__(self) -> None:
        self._verification = Verification(processes=1, threads=1)

    async def whereabouts(self) -> Whereabouts:
        """Of this actor."""
        return Whereabouts.here()

    async def check(self, verifiers: Sequence[Any]) -> None:
        """Have verifiers raise what this machine lacks, e.g. SandboxError."""
        for verifier in verifiers:
            await asyncio.to_thread(verifier.check)

    async def judge(self, verifier: Verifier, answer: str, response: str) -> Verdict:
        """See `Verification.judge`."""
        return await self._verification.judge(verifier, answer, response)


class RewardWorkers(Verification):
    """The judges of one run, as many as `resources.reward_workers`. What is to run inline stays in this process.

    verifiers: those whose `check` must succeed where judgements are made.
    """

    def __init__(
        self, resources: Resources, verifiers: Sequence[Any] = (), *, actor_class: type = RewardActor
    ) -> None:
        super().__init__(processes=1, threads=1)
        self._resources, self._verifiers, self._actor_class = resources, list(verifiers), actor_class
        self._group: PlacementGroup | None = None
        self._parts: dict[int, Part] = {}  # by number
        self._room: asyncio.PriorityQueue[_Room] = asyncio.PriorityQueue()
        self._tasks: set[asyncio.Task[None]] = set()
        self.num_lost = 0

    async def start(self, switch: Switchboard, *, may_grow: bool, patience: Patience) -> None:
        """Place and start all. Raises ClusterError naming the worker, its machine and what this lacks; Stopped."""
        self._group = placement_group(reward_bundles(self._resources), strategy="SPREAD")
        await wait_for_place(self._group, self._resources, switch, may_grow=may_grow, patience=patience)
        self._parts = {n: self._make(n) for n in range(len(reward_bundles(self._resources)))}
        opened = first_error_or_all([self._open(part) for part in self._parts.values()])
        await switch.result(opened, what="all reward workers to start", timeout=START_TIMEOUT_SECONDS)
        hosts = sorted({part.host for part in self._parts.values()})
        log.info("%d reward workers on %s", len(self._parts), ", ".join(hosts))

    async def judge(self, verifier: Verifier, answer: str, response: str) -> Verdict:
        """See `Verification.judge`. RewardError, too, where no worker is left."""
        # START: of its process. Twice: what the worker has been given before is judged first.
        limit = IN_FLIGHT * (START_SECONDS + verifier.timeout_seconds + GRACE_SECONDS + KILL_SECONDS)
        for _ in range(MAX_DEATHS):
            room = await self._next()
            part = room.part
            try:
                return await in_time(part, "judge", part.call("judge", verifier, answer, response), limit)
            except PartGone as error:
                last = str(error)
                self._lose(part, last)
            except RewardError as error:
                raise RewardError(f"{part}: {error}") from None
            finally:
                self._room.put_nowait(room)
        raise Unanswered(f"crashed: {MAX_DEATHS} reward workers died over it; last: {last}")

    async def aclose(self) -> None:
        """Kill the actors, with them their processes, and give their place back."""
        for task in self._tasks:
            task.cancel()
        await in_thread(self.let_go, KILL_TIMEOUT_SECONDS)

    def let_go(self) -> None:
        """As `aclose`, from a thread. May be called again."""
        workers, self._parts = self._parts, {}
        group, self._group = self._group, None
        for part in workers.values():
            ray.kill(part.actor)
        if group is not None:
            remove_placement_group(group)

    async def _next(self) -> "_Room":
        """The worker with most room. RewardError where none is left."""
        while self._parts:
            room = await self._room.get()
            if room.part in self._parts.values():  # else it is lost
                return room
        self._room.put_nowait(_Room(0, None))  # for the next one who waits
        raise RewardError("no reward worker is left")

    def _make(self, number: int) -> Part:
        group: Any = self._group
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)
        as_actor: Any = ray.remote(self._actor_class)
        actor = as_actor.options(num_cpus=1, scheduling_strategy=strategy, max_concurrency=2 * IN_FLIGHT)
        return Part(f"reward worker {number}", actor.remote(), is_single=False, gone=RewardGone)

    async def _open(self, part: Part) -> None:
        where = await part.call("whereabouts")
        part.process, part.host = where.process, where.host
        await part.call("check", self._verifiers)
        part.is_single = True  # from now on, the judgement's own errors are what is wanted
        for place in range(IN_FLIGHT):
            self._room.put_nowait(_Room(place, part))

    def _lose(self, part: Part, why: str) -> None:
        """Have another worker take its place, once."""
        number = next((number for number, one in self._parts.items() if one is part), None)
        if number is None:
            return
        self.num_lost += 1
        log.warning("%s; another one takes its place", why)
        self._parts[number] = self._make(number)
        task = asyncio.create_task(self._replace(number, part))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _replace(self, number: int, old: Part) -> None:
        new = self._parts[number]
        try:
            await in_thread(partial(ray.kill, old.actor), KILL_TIMEOUT_SECONDS)
            await in_time(new, "start", self._open(new), START_TIMEOUT_SECONDS)
        except Exception as error:  # the others go on
            log.warning("%s is not replaced: %s", old.name, last_line(error))
            del self._parts[number]
            if not self._parts:
                self._room.put_nowait(_Room(0, None))
