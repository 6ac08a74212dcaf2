"""Ray: connect or start, wait for a place, put generator and trainer into actors, take them away again."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from training.batching import Batch
from training.rollouts import Completion, Request
from training.schema import Recipe, Resources
from training.waiting import Switchboard

log = logging.getLogger("training")

PLACEMENT_REPORT_SECONDS = 10.0
TOO_SMALL_SECONDS = 60.0  # a cluster that lacks devices altogether may still be growing
PLACEMENT_TIMEOUT_SECONDS = 24 * 3600.0
LOADING_TIMEOUT_SECONDS = 1800.0
SHUTDOWN_TIMEOUT_SECONDS = 10.0
LOCAL_OBJECT_STORE_BYTES = 128 << 20


class ClusterError(RuntimeError):
    """The cluster cannot place the run."""


def connect(resources: Resources) -> str:
    """Join the cluster that RAY_ADDRESS names (a Ray job sets it), or start a local one. Returns which, in words."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address and not address.startswith("http"):  # http: a dashboard, for submitting jobs; nothing to join
        ray.init(address, namespace="headroom", log_to_driver=True, logging_level=logging.WARNING)
        return address
    root = str(Path(__file__).resolve().parent.parent)
    os.environ.pop("RAY_ADDRESS", None)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    needed = resources.generator_cpus + resources.trainer_cpus
    ray.init(
        "local",
        num_cpus=max(needed, os.cpu_count() or 1),
        include_dashboard=False,
        namespace="headroom",
        object_store_memory=LOCAL_OBJECT_STORE_BYTES,
        log_to_driver=True,
        logging_level=logging.WARNING,
    )
    return "local"


async def place(resources: Resources, switch: Switchboard) -> PlacementGroup:
    """Reserve the generator's bundle and the trainer's; says every 10 s what is lacking. Raises ClusterError."""
    bundles = [
        _bundle(resources.generator_cpus, resources.generator_gpus),
        _bundle(resources.trainer_cpus, resources.trainer_gpus),
    ]
    group = placement_group(bundles, strategy="PACK")
    ready = asyncio.ensure_future(_as_coroutine(group.ready()))
    waited = 0.0
    while True:
        await switch.result(
            asyncio.wait({ready}, timeout=PLACEMENT_REPORT_SECONDS),
            what="a placement",
            timeout=2 * PLACEMENT_REPORT_SECONDS,
        )
        if ready.done():
            ready.result()
            return group
        waited += PLACEMENT_REPORT_SECONDS
        lacking = _lacking(bundles)
        log.info("waiting for a place: %s", lacking)
        if (waited >= TOO_SMALL_SECONDS and "only" in lacking) or waited >= PLACEMENT_TIMEOUT_SECONDS:
            raise ClusterError(f"no place after {waited:.0f} s: {lacking}")


def _bundle(cpus: int, gpus: int) -> dict[str, float]:
    return {"CPU": float(cpus)} | ({"GPU": float(gpus)} if gpus else {})


def _lacking(bundles: list[dict[str, float]]) -> str:
    """What the run needs, what is free, and whether the cluster could ever have it ("has only")."""
    total, free = ray.cluster_resources(), ray.available_resources()
    parts = []
    for name in sorted({name for bundle in bundles for name in bundle}):
        needed = sum(bundle.get(name, 0) for bundle in bundles)
        has = total.get(name, 0)
        only = "only " if has < needed else ""
        parts.append(f"needs {needed:g} {name}; {free.get(name, 0):g} free, the cluster has {only}{has:g}")
    return ", ".join(parts)


class GeneratorActor:
    """Runs in Ray: an engine."""

    def __init__(self, recipe: dict[str, Any], model_folder: str, threads: int) -> None:
        from training.engines import make_engine

        self._engine = make_engine(recipe, model_folder, threads)

    async def ready(self) -> list[int]:
        """Returns when the engine has loaded: process ids, this one first."""
        return [os.getpid(), *await self._engine.processes()]

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """See training.rollouts.Generator."""
        return await self._engine.generate(requests, temperature)

    async def update_weights(self, weights: Any, version: int) -> None:
        """See training.rollouts.Generator."""
        await self._engine.update_weights(weights, version)

    async def interrupt(self) -> None:
        """See training.rollouts.Generator."""
        await self._engine.interrupt()

    async def shutdown(self) -> None:
        """End the engine's processes."""
        self._engine.shutdown()


class TrainerActor:
    """Runs in Ray: a trainer. Calls are executed one after the other, in order."""

    def __init__(self, recipe: dict[str, Any], model_folder: str, threads: int) -> None:
        from training.trainer import Trainer

        self._trainer = Trainer(recipe, model_folder, threads)

    def ready(self) -> int:
        """Returns when the network has loaded: process id."""
        return os.getpid()

    def call(self, method: str, *args: Any) -> Any:
        """Any method of training.trainer.Trainer."""
        return getattr(self._trainer, method)(*args)


class RemoteGenerator:
    """The generator's handle in the driver."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """See training.rollouts.Generator."""
        return await self._actor.generate.remote(requests, temperature)

    async def update_weights(self, weights: Any, version: int) -> None:
        """`weights` is what RemoteTrainer.weights gave: they never pass through the driver."""
        await self._actor.update_weights.remote(weights, version)

    async def interrupt(self) -> None:
        """See training.rollouts.Generator."""
        await self._actor.interrupt.remote()


class RemoteTrainer:
    """The trainer's handle in the driver. All methods but `weights` are awaitable."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def train_step(self, batch: Batch) -> Awaitable[Any]:
        """See training.trainer.Trainer."""
        return self._actor.call.remote("train_step", batch)

    def logp(self, batch: Batch) -> Awaitable[Any]:
        """See training.trainer.Trainer."""
        return self._actor.call.remote("logp", batch)

    def weights(self) -> Any:
        """A reference to the weights after the calls made so far."""
        return self._actor.call.remote("weights")

    async def save(self, path: str) -> None:
        """See training.trainer.Trainer."""
        await self._actor.call.remote("save", path)

    async def load(self, path: str) -> int:
        """See training.trainer.Trainer."""
        return await self._actor.call.remote("load", path)


class Cluster:
    """The run's actors, from placement to removal."""

    def __init__(self, recipe: Recipe, model_folder: Path, switch: Switchboard) -> None:
        self._recipe, self._model_folder, self._switch = recipe, model_folder, switch
        self._group: Any = None  # PlacementGroup once placed
        self._actors: list[Any] = []
        self.processes: list[int] = []

    async def start(self) -> tuple[RemoteGenerator, RemoteTrainer]:
        """Place and load both, at the same time."""
        resources = self._recipe.resources
        self._group = await place(resources, self._switch)
        generator = self._actor(
            GeneratorActor,
            0,
            cpus=resources.generator_cpus,
            gpus=resources.generator_gpus,
            max_concurrency=1000,
        )
        trainer = self._actor(TrainerActor, 1, cpus=resources.trainer_cpus, gpus=resources.trainer_gpus)
        loaded = asyncio.gather(
            _as_coroutine(generator.ready.remote()), _as_coroutine(trainer.ready.remote())
        )
        log.info("loading the generator (%s) and the trainer", self._recipe.engine.type)
        generator_processes, trainer_process = await self._switch.result(
            loaded, what="generator and trainer to load", timeout=LOADING_TIMEOUT_SECONDS
        )
        self.processes = [*generator_processes, trainer_process]
        return RemoteGenerator(generator), RemoteTrainer(trainer)

    def _actor(self, cls: type, bundle: int, *, cpus: int, gpus: int, **options: Any) -> Any:
        strategy = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=bundle)
        actor: Any = (
            ray.remote(cls)
            .options(num_cpus=cpus, num_gpus=gpus, scheduling_strategy=strategy, **options)
            .remote(self._recipe.model_dump(mode="json"), str(self._model_folder), cpus)
        )
        self._actors.append(actor)
        return actor

    async def stop(self, *, patiently: bool) -> None:
        """Shut the engine down, kill the actors, give the place back. Safe at any point of `start`.

        Impatiently, the engine is not asked first: its processes notice that the actor is gone.
        """
        if self.processes and patiently:
            shutdown = _as_coroutine(self._actors[0].shutdown.remote())
            try:
                await asyncio.wait_for(shutdown, SHUTDOWN_TIMEOUT_SECONDS)
            except Exception as error:  # it is going away in any case
                log.warning("the generator did not shut down by itself: %s", error)
        for actor in self._actors:
            ray.kill(actor)
        if self._group is not None:
            remove_placement_group(self._group)


async def _as_coroutine(reference: Any) -> Any:
    return await reference


def this_host() -> str:
    """Name of the driver's machine."""
    return socket.gethostname()
