"""What runs in Ray: an engine or a trainer rank, in a process of its own.

An actor is made first and loads afterwards: by then it is known where each of them is.
"""

import asyncio
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from headroom.system import Machine
from training.addresses import Group

# Ray's names for threads beside the one that works: for `alive`, to end its waits, and for the end of a save.
WATCH, HELP, SAVE = "watch", "help", "save"
TRAINER_GROUPS = {WATCH: 1, HELP: 1, SAVE: 1}  # what a trainer answers while it trains, and how much at once


@dataclass(frozen=True)
class Whereabouts:
    """Of an actor: process id, machine, and the GPUs that Ray gave it, as CUDA names them."""

    process: int
    host: str
    gpus: list[str]

    @classmethod
    def here(cls) -> "Whereabouts":
        """Of this process."""
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "") if ray.get_gpu_ids() else ""
        return cls(os.getpid(), socket.gethostname(), [name for name in gpus.split(",") if name])


class GeneratorActor:
    """An engine. Calls run beside each other."""

    _engine: Any = None
    _machine: Any = None

    async def system(self, name: str) -> dict[str, float]:
        """What this machine does, and this actor as the part `name` (`headroom.system`)."""
        self._machine = self._machine or Machine(name, gpus=Whereabouts.here().gpus)
        return self._machine.measure()

    async def whereabouts(self) -> Whereabouts:
        """Of this actor."""
        return Whereabouts.here()

    async def alive(self) -> None:
        """Never returns: whoever waits for it learns of this process's end."""
        await asyncio.Event().wait()

    async def load(
        self, recipe: dict[str, Any], model_folder: str, threads: int, gpus: list[str]
    ) -> list[int]:
        """Load the engine; with `gpus`, on these, which ranks hold and lend it. Returns ids of its child processes."""
        if gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        from training.engines import make_engine

        self._engine = make_engine(recipe, model_folder, threads)
        await self._engine.check_head()
        return await self._engine.processes()

    async def kv_tokens(self) -> int:
        """Tokens that the engine's KV cache holds."""
        return self._engine.kv_tokens

    async def call(self, method: str, *args: Any) -> Any:
        """Any other method of an engine: of training.rollouts.Generator, and those for the trainer's broadcasts."""
        return await getattr(self._engine, method)(*args)

    async def shutdown(self) -> None:
        """End the engine's processes."""
        if self._engine is not None:
            self._engine.shutdown()


class TrainerActor:
    """A trainer rank. Calls are executed one after the other, in order, but for `alive`."""

    _trainer: Any = None
    _meeting: Any = None
    _sender: Any = None
    _sending_to: Group | None = None
    _sending_device = "cpu"
    _machine: Any = None

    @ray.method(concurrency_group=HELP)
    def system(self, name: str) -> dict[str, float]:
        """See GeneratorActor.system; also while it trains."""
        self._machine = self._machine or Machine(name, gpus=Whereabouts.here().gpus)
        return self._machine.measure()

    def whereabouts(self) -> Whereabouts:
        """Of this actor."""
        return Whereabouts.here()

    @ray.method(concurrency_group=WATCH)
    def alive(self) -> None:
        """Never returns: whoever waits for it learns of this process's end."""
        threading.Event().wait()

    def free_address(self) -> str:
        """An address on this machine where rank 0 can be met by the others: where Ray's other nodes reach this one."""
        from training.addresses import free_address

        return free_address(ray.util.get_node_ip_address())

    def load(
        self,
        recipe: dict[str, Any],
        model_folder: str,
        threads: int,
        index: int,
        count: int,
        address: str,
    ) -> None:
        """Load the network as rank `index` of `count`; all of them meet at `address`."""
        from training.trainer.distributed import ALONE, Ranks
        from training.trainer.trainer import Trainer

        ranks = Ranks(index, count, address) if count > 1 else ALONE
        self._trainer = Trainer(recipe, model_folder, threads, ranks)

    def call(self, method: str, *args: Any) -> Any:
        """Any method of training.trainer.trainer.Trainer."""
        return getattr(self._trainer, method)(*args)

    @ray.method(concurrency_group=SAVE)
    def end_save(self, begun: None) -> None:
        """Wait until what `begin_save` began is written, while other calls go on. `begun`: its answer, which Ray waits
        for."""
        self._trainer.end_save()

    def plan_broadcast(self) -> tuple[str, Any]:
        """(an address on this machine, what will be broadcast). On all ranks: weights are gathered from all."""
        from training.addresses import free_address
        from training.broadcast import plan

        return free_address(ray.util.get_node_ip_address()), plan(self._trainer.named_weights())

    def open_broadcast(self, address: str, device: str) -> None:
        """Rank 0 alone: listen at `address` for engine workers."""
        from training.broadcast import Meeting

        self._meeting, self._sending_device = Meeting(address, listens=True), device

    def broadcast(self, group: Group) -> None:
        """On all ranks: rank 0 sends what it gathers from all."""
        named = self._trainer.named_weights()
        try:
            if self._meeting is not None:
                self._sender_of(group).send(named)
        finally:
            for _ in named:  # the others gather to the end, whatever has become of rank 0's group
                pass

    def _sender_of(self, group: Group) -> Any:
        from training.broadcast import Sender

        if self._sender is None or group != self._sending_to:
            self._sender = Sender(self._meeting, group, self._sending_device)
            self._sending_to = group
        return self._sender

    @ray.method(concurrency_group=HELP)
    def give_up_broadcast(self, group: Group, why: str) -> None:
        """Rank 0 alone: end a broadcast under way, of which somebody has died."""
        self._meeting.give_up(group.number, why)

    def export(self, checkpoint: str, base_model: str, out: str, dtype: str) -> None:
        """Write a checkpoint's model in Hugging Face format; see training.export."""
        from training.export import export_model

        export_model(Path(checkpoint), Path(base_model), Path(out), dtype=dtype)
