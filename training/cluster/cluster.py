"""A run's actors on Ray, from placement to removal.

    connect ─► Cluster.start:  place  ─► make actors ─► load all of them at once ─► open the weight broadcast
               Cluster.guard:  work of the driver, ended by the first rank that dies, or Ray itself, whoever waits;
                               an engine that dies is replaced
               Cluster.stop:   engines end their processes, actors are killed, the place is given back

`training.bundles` says which devices, `actors` is what runs there, `parts` are the driver's handles on it.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from training.bundles import Seat, make_plan
from training.cluster.actors import TRAINER_GROUPS, GeneratorActor, TrainerActor, Whereabouts
from training.cluster.broadcasts import Broadcasts, BroadcastWeights
from training.cluster.parts import Part, RemoteGenerator, RemoteTrainer, end_of, first_error_or_all, in_time
from training.cluster.placement import (
    ClusterError,
    EngineGone,
    Patience,
    Pulse,
    local_cores,
    wait_for_place,
    watch_head,
)
from training.cluster.rewards import RewardWorkers
from training.engines.pool import EnginePool
from training.errors import last_line, telling_line
from training.rollouts import Generator
from training.schema import Recipe, Resources
from training.waiting import Switchboard, WaitTimeout, in_thread

__all__ = ["Cluster", "ClusterError", "RemoteTrainer", "connect", "disconnect"]

log = logging.getLogger("training")
T = TypeVar("T")

LOCAL = "local"
START_TIMEOUT_SECONDS = 300.0  # for actors' processes; Ray may have to start them from a slow disk
SHUTDOWN_TIMEOUT_SECONDS = 10.0
DISCONNECT_TIMEOUT_SECONDS = 5.0
BLAME_SECONDS = 3.0  # after an error: a part whose death caused it may become known
MIN_OBJECT_STORE_BYTES = 128 << 20


def connect(resources: Resources, weights_bytes: int = 0) -> str:
    """Join the cluster that RAY_ADDRESS names (a Ray job sets it), or start a local one. Returns which, in words.

    Raises ClusterError where this machine alone would train and has too few cores.
    `weights_bytes`: what one version of the weights takes; a local object store is made to hold two and some.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    if address and not address.startswith("http"):  # http: a dashboard, for submitting jobs; nothing to join
        ray.init(address, namespace="headroom", log_to_driver=True, logging_level=logging.WARNING)
        return address
    root = str(Path(__file__).resolve().parents[2])
    os.environ.pop("RAY_ADDRESS", None)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        LOCAL,
        num_cpus=local_cores(resources),
        include_dashboard=False,
        namespace="headroom",
        object_store_memory=max(MIN_OBJECT_STORE_BYTES, 5 * weights_bytes // 2),
        log_to_driver=True,
        logging_level=logging.WARNING,
    )
    return LOCAL


async def disconnect() -> None:
    """Leave the cluster, and end a local one. A head that does not answer is not waited for."""
    try:
        await in_thread(ray.shutdown, DISCONNECT_TIMEOUT_SECONDS)
    except Exception as error:
        log.debug("leaving the cluster: %s", last_line(error))


class Cluster:
    """The run's actors. `address` is what `connect` returned; a local cluster cannot grow."""

    generator_class: type = GeneratorActor
    trainer_class: type = TrainerActor
    pulse = Pulse()

    def __init__(
        self,
        recipe: Recipe,
        model_folder: Path,
        switch: Switchboard,
        *,
        address: str = LOCAL,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        rewards: RewardWorkers | None = None,
    ) -> None:
        self._recipe, self._model_folder, self._switch = recipe, model_folder, switch
        self._may_grow, self._patience = address != LOCAL, patience
        self._rewards = rewards
        self._group: PlacementGroup | None = None
        self._engines: list[Part] = []
        self._ranks: list[Part] = []
        self._lent: list[list[str]] = []  # GPUs of ranks that each engine uses
        self._broadcast_plan: tuple[str, Any] | None = None  # where, and what
        self._watches: list[asyncio.Task] = []
        self._head_watch: asyncio.Task | None = None
        self._is_lost = False  # Ray itself
        self._gone: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._pool: EnginePool | None = None
        self.processes: list[int] = []
        self.has_replaced: Callable[[], None] = lambda: None  # is called when `processes` has changed

    @property
    def num_lost_engines(self) -> int:
        """Engines that died and gave way to others."""
        return self._pool.num_lost if self._pool else 0

    @property
    def parts(self) -> list[Part]:
        """Engines and trainer ranks, as they are now."""
        return self._engines + self._ranks

    async def start(self) -> tuple[Generator, RemoteTrainer]:
        """Place and load everything. Raises ClusterError, WaitTimeout naming what has not loaded, Stopped."""
        self._head_watch = asyncio.create_task(self._watch_head())
        return await self.guard(self._start())

    async def guard(self, work: Awaitable[T]) -> T:
        """The work's result. Raises ClusterError as soon as a part of the run, or Ray's head, dies; the work is then
        cancelled."""
        task = asyncio.ensure_future(work)
        either: set[asyncio.Future[Any]] = {task, self._gone}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and self._watches and _may_come_of_a_death(task):
                await asyncio.wait({self._gone}, timeout=BLAME_SECONDS)
            if self._gone.done():
                if task.done() and not task.cancelled():
                    task.exception()  # the death is the better reason; asyncio warns of errors nobody looked at
                raise self._gone.result()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=SHUTDOWN_TIMEOUT_SECONDS)

    async def stop(self, *, patiently: bool) -> None:
        """Shut the engines down, kill the actors, give the place back. Safe at any point of `start`.

        Impatiently, the engines are not asked first: their processes notice that the actor is gone. Where Ray itself is
        lost, its processes notice that the driver has ended.
        """
        for watch in filter(None, [self._head_watch, *self._watches]):
            watch.cancel()
        if self._pool:
            self._pool.close()
        if self.processes and patiently:
            ends = [asyncio.ensure_future(engine.call("shutdown")) for engine in self._engines]
            done, late = await asyncio.wait(ends, timeout=SHUTDOWN_TIMEOUT_SECONDS)
            for problem in filter(None, (end.exception() for end in done)):
                log.warning("an engine did not shut down by itself: %s", problem)
            for end in late:
                end.cancel()
        if self._is_lost:  # nobody is there to be asked
            return
        try:
            await in_thread(self._let_go, SHUTDOWN_TIMEOUT_SECONDS)
        except Exception as error:  # the reason of the end is another one
            log.warning("Ray ends the run's actors when it finds the driver gone: %s", last_line(error))

    def _let_go(self) -> None:
        for part in self.parts:
            ray.kill(part.actor)
        if self._rewards:
            self._rewards.let_go()
        if self._group is not None:
            remove_placement_group(self._group)

    # -- start -----------------------------------------------------------------------------------------------

    async def _start(self) -> tuple[Generator, RemoteTrainer]:
        resources, plan = self._recipe.resources, make_plan(self._recipe.resources)
        self._group = placement_group(plan.bundles, strategy="PACK")
        await wait_for_place(
            self._group, resources, self._switch, may_grow=self._may_grow, patience=self._patience
        )
        if self._rewards:
            await self._rewards.start(self._switch, may_grow=self._may_grow, patience=self._patience)
        self._engines = [self._engine(number) for number in range(len(plan.engines))]
        ranks = [self._make(self.trainer_class, seat) for seat in plan.ranks]
        self._ranks = [Part(f"trainer rank {number}", actor) for number, actor in enumerate(ranks)]
        gpus = await self._find_out_where()
        self._watches = [asyncio.create_task(self._watch(part)) for part in self.parts]
        await self._load(gpus if resources.shared else {})
        trainer = RemoteTrainer(self._ranks)
        pool = self._pool = EnginePool(
            [RemoteGenerator(part) for part in self._engines],
            replace=self._replace,
            on_failure=self._has_gone,
        )
        if self._recipe.broadcasts_weights:
            await self._open_broadcast()
            trainer.broadcast = partial(BroadcastWeights, self._broadcasts(trainer, pool))
        for part, engine in zip(self._engines, pool.engines, strict=True):
            self._watch_engine(part, engine)
        return pool, trainer

    def _engine(self, number: int) -> Part:
        seat = make_plan(self._recipe.resources).engines[number]
        actor = self._make(self.generator_class, seat, max_concurrency=1000)
        death = asyncio.get_running_loop().create_future()
        return Part(f"generator {number}", actor, gone=EngineGone, death=death)

    def _make(self, cls: type, seat: Seat, **options: Any) -> Any:
        group: Any = self._group
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=seat.bundle)
        as_actor: Any = ray.remote  # its type does not know concurrency_groups
        actor = as_actor(concurrency_groups=TRAINER_GROUPS)(cls)
        return actor.options(
            num_cpus=seat.cpus, num_gpus=seat.gpus, scheduling_strategy=strategy, **options
        ).remote()

    async def _find_out_where(self) -> dict[int, list[str]]:
        """Note each part's process and machine, and number the ranks by machine and GPU. GPUs by bundle."""
        plan = make_plan(self._recipe.resources)
        gpus: dict[int, list[str]] = {}
        found = await self._all("start", self._engines + self._ranks, START_TIMEOUT_SECONDS, "whereabouts")
        for part, where in zip(self._engines + self._ranks, found, strict=True):
            part.process, part.host = where.process, where.host
        for seat, where in zip(plan.ranks, found[len(self._engines) :], strict=True):
            gpus.setdefault(seat.bundle, []).extend(where.gpus)
        for names in gpus.values():  # Ray hands them out in any order
            names.sort(key=_gpu_number)
        by_place = sorted(zip(self._ranks, found[len(self._engines) :], strict=True), key=_place)
        self._ranks = [part for part, _ in by_place]
        for number, part in enumerate(self._ranks):
            part.name, part.is_single = f"trainer rank {number}", len(self._ranks) == 1
        self.processes = [where.process for where in found]
        return gpus

    async def _load(self, lent_gpus: dict[int, list[str]]) -> None:
        """All at the same time: ranks have to meet."""
        resources = self._recipe.resources
        count = len(self._ranks)
        address = await self._ranks[0].call("free_address") if count > 1 else ""
        self._lent = self._gpus_of_engines(lent_gpus)
        loads = [(engine, self._load_engine(number)) for number, engine in enumerate(self._engines)]
        loads += [
            (rank, rank.call("load", *self._source, resources.cpus_per_trainer, index, count, address))
            for index, rank in enumerate(self._ranks)
        ]
        parts = [part for part, _ in loads]
        log.info("loading %s (%s)", ", ".join(part.name for part in parts), self._recipe.engine.type)
        loaded = await self._gather("load", parts, [work for _, work in loads], self._patience.loading)
        self.processes += [child for children in loaded[: len(self._engines)] for child in children]
        tokens = min(await self._all("say their memory", self._engines, self._patience.loading, "kv_tokens"))
        length = self._recipe.rollout.max_sequence_tokens
        log.info(
            "the KV cache of each engine holds %d tokens: %.3g sequences of %d (engine.max_sequences %d)",
            *(tokens, tokens / length, length, self._recipe.engine.max_sequences),
        )

    async def _load_engine(self, number: int) -> list[int]:
        """Ids of its child processes."""
        threads = self._recipe.resources.cpus_per_generator
        return await self._engines[number].call("load", *self._source, threads, self._lent[number])

    @property
    def _source(self) -> tuple[dict[str, Any], str]:
        """What every part loads."""
        return self._recipe.model_dump(mode="json"), str(self._model_folder)

    def _gpus_of_engines(self, lent: dict[int, list[str]]) -> list[list[str]]:
        """What each engine may use of the GPUs that ranks of its bundle hold; empty: those that Ray gives it."""
        left = {bundle: list(gpus) for bundle, gpus in lent.items()}
        each = self._recipe.resources.gpus_per_generator if lent else 0
        engines = make_plan(self._recipe.resources).engines
        return [[left[seat.bundle].pop(0) for _ in range(each)] for seat in engines]

    async def _open_broadcast(self) -> None:
        """Rank 0 of every group is the first trainer rank; engine workers follow."""
        plans = await self._all("gather weights", self._ranks, self._patience.loading, "plan_broadcast")
        address, _ = self._broadcast_plan = plans[0]
        device = "cuda" if self._recipe.resources.trainer_gpus else "cpu"
        await self._ranks[0].call("open_broadcast", address, device)
        joins = [engine.call("call", "join_broadcast", *self._broadcast_plan) for engine in self._engines]
        await self._gather("join the weight broadcast", self._engines, joins, self._patience.loading)

    def _broadcasts(self, trainer: RemoteTrainer, pool: EnginePool) -> Broadcasts:
        return Broadcasts(
            self._ranks,
            lambda: [engine.part for engine in pool.engines if isinstance(engine, RemoteGenerator)],
            version=lambda: trainer.version,
            workers=max(1, self._recipe.resources.gpus_per_generator),
        )

    async def _all(self, what: str, parts: Sequence[Part], timeout: float, method: str) -> list[Any]:
        return await self._gather(what, parts, [part.call(method) for part in parts], timeout)

    async def _gather(
        self, what: str, parts: Sequence[Part], work: Sequence[Awaitable[T]], timeout: float
    ) -> list[T]:
        """All results; WaitTimeout names the parts that did not do it."""
        tasks = [asyncio.ensure_future(one) for one in work]
        together = first_error_or_all([asyncio.shield(task) for task in tasks])
        try:
            return await self._switch.result(together, what=f"all parts to {what}", timeout=timeout)
        except WaitTimeout:
            late = [str(part) for part, task in zip(parts, tasks, strict=True) if not task.done()]
            raise WaitTimeout(f"waited {timeout:.0f} s for {', '.join(late)} to {what}") from None
        finally:
            for task in tasks:
                task.cancel()

    # -- death -----------------------------------------------------------------------------------------------

    async def _watch_head(self) -> None:
        """Ray's own end ends the run too: its parts may live on, but nothing they say arrives."""
        is_local = not self._may_grow
        problem = await watch_head(
            is_local=is_local, is_stopping=lambda: self._switch.is_stopping, pulse=self.pulse
        )
        self._is_lost = True
        self._has_gone(problem)

    async def _watch(self, part: Part) -> None:
        """`alive` returns only with the part's end: also where nobody waits for it at the moment. The end of an engine
        that serves is looked at by `_watch_engine`."""
        problem = await end_of(part, "alive")
        if self._pool is None or part in self._ranks:
            self._has_gone(problem)

    def _has_gone(self, problem: Exception) -> None:
        if not self._gone.done():
            self._gone.set_result(problem)

    def _watch_engine(self, part: Part, engine: Generator) -> None:
        """Tell the pool of an engine's end."""

        async def watch() -> None:
            problem = await end_of(part, "call", "until_dead")
            part.death.set_result(None)
            assert self._pool is not None
            self._pool.lose(engine, problem)

        self._watches.append(asyncio.create_task(watch()))

    async def _replace(self, number: int, reason: Exception) -> Generator:
        """Another engine in the place of one that died, loaded, without new weights. Raises what prevents it."""
        log.warning("%s; another one takes its place", telling_line(reason))
        began, old = time.monotonic(), self._engines[number]
        await in_thread(
            partial(ray.kill, old.actor), SHUTDOWN_TIMEOUT_SECONDS
        )  # its processes may have died alone
        part = self._engines[number] = self._engine(number)
        where = await in_time(part, "start", part.call("whereabouts"), START_TIMEOUT_SECONDS)
        part.process, part.host, part.is_single = where.process, where.host, old.is_single
        children = await in_time(part, "load", self._load_engine(number), self._patience.loading)
        if self._broadcast_plan:
            await part.call("call", "join_broadcast", *self._broadcast_plan)
        self.processes += [where.process, *children]
        self.has_replaced()
        engine = RemoteGenerator(part)
        self._watch_engine(part, engine)
        log.info("%s has loaded after %.0f s", part, time.monotonic() - began)
        return engine


def _may_come_of_a_death(task: asyncio.Future) -> bool:
    """Whether the error may be what one part says of another's death: then the death is the better reason."""
    if task.cancelled() or isinstance(task.exception(), WaitTimeout):
        return False
    return isinstance(task.exception(), RuntimeError | OSError)


def _place(found: tuple[Part, Whereabouts]) -> tuple[str, list[tuple[int, str]]]:
    where = found[1]
    return where.host, [_gpu_number(name) for name in where.gpus]


def _gpu_number(name: str) -> tuple[int, str]:
    """Numbers in their order, then the names of devices that have none."""
    return (int(name), "") if name.isdigit() else (sys.maxsize, name)
