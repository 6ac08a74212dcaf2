"""Actors without torch and models, for tests of what the cluster does with them."""

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import ray

from training.addresses import Group
from training.cluster.actors import HELP, GeneratorActor, TrainerActor
from training.rollouts import Completion, Request


class ToyEngine:
    """Remembers its weights; `generate` answers with the version, forty for ever."""

    def __init__(self) -> None:
        self.version, self.weights = 0, None

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        if requests[0].max_tokens == 40:
            await asyncio.Event().wait()
        return [Completion([self.weights or 0], [0.0], True, [self.version]) for _ in requests]

    async def update_weights(self, weights: int, version: int) -> None:
        self.weights, self.version = weights, version

    async def join_broadcast(self, address: str, plan: list[str]) -> None:
        assert (address, plan) == ("here:2", ["weights"])

    async def receive_weights(self, group: Group, first_rank: int) -> None:
        """Rank 3 dies of its third group."""
        self.received = (group.number, group.size, first_rank)
        if (group.number, first_rank) == (3, 2):
            os.kill(os.getpid(), signal.SIGKILL)

    async def use_weights(self, version: int) -> None:
        """A token is the group's number, its size and the rank in it."""
        number, size, rank = self.received
        self.weights, self.version = 100 * number + 10 * size + rank, version

    async def until_dead(self) -> None:
        await asyncio.Event().wait()

    async def interrupt(self) -> None:
        raise LookupError("nothing to interrupt\nat all")

    def shutdown(self) -> None:
        pass


class ToyGenerator(GeneratorActor):
    async def load(
        self, recipe: dict[str, Any], model_folder: str, threads: int, gpus: list[str]
    ) -> list[int]:
        assert threads == 1
        self._engine, self._gpus = ToyEngine(), gpus
        return []

    async def kv_tokens(self) -> int:
        return 1000

    async def lent_gpus(self) -> list[str]:
        return self._gpus


class ToyBrain:
    """A trainer rank; "batches" are numbers."""

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count, self.seen = index, count, []

    def train_step(self, batch: Any) -> tuple[int, int, list[Any]]:
        """Rank 0's differs from the others'. Certain batches go wrong on the last rank."""
        self.seen.append(batch)
        if self.index == self.count - 1:
            if batch == "bad":
                raise ArithmeticError("the gradient norm of step 3 is not finite\nsome advice")
            if batch == "die":
                os.kill(os.getpid(), signal.SIGKILL)
        if batch in ("bad", "die"):  # the others would wait for it in a collective
            threading.Event().wait()
        return self.index, self.count, self.seen

    def begin_save(self, path: str) -> None:
        if path == "nowhere":
            raise OSError(f"{path} cannot be written")
        self.seen.append("save begun")
        self.path = path

    def end_save(self) -> None:
        """When the file is there."""
        while not Path(self.path).exists():
            time.sleep(0.01)

    def weights(self) -> int:
        return len(self.seen) + 100 * self.index

    def process(self) -> int:
        return os.getpid()


class ToyTrainer(TrainerActor):
    def load(
        self, recipe: dict[str, Any], model_folder: str, threads: int, index: int, count: int, address: str
    ) -> None:
        assert address == ("here:1" if count > 1 else "")
        self._trainer = ToyBrain(index, count)

    def free_address(self) -> str:
        return "here:1"

    def plan_broadcast(self) -> tuple[str, list[str]]:
        self._trainer.seen.append("planned")
        return "here:2", ["weights"]

    def open_broadcast(self, address: str, device: str) -> None:
        assert (self._trainer.index, address, device) == (0, "here:2", "cpu")
        self._is_over = threading.Event()

    def broadcast(self, group: Group) -> None:
        """Goes wrong on the last rank after a bad batch; the first one waits in a group whose engine dies."""
        if self._trainer.index == 1 and "no broadcast" in self._trainer.seen:
            raise ConnectionError("nobody listens")
        self._trainer.seen.append(f"sent to {group.size - 1}")
        if self._trainer.index == 0 and group == Group(3, 3):
            self._is_over.wait()
            raise ConnectionError("given up")

    @ray.method(concurrency_group=HELP)
    def give_up_broadcast(self, group: Group, why: str) -> None:
        assert group == Group(3, 3) and why.startswith("generator 1 (process") and why.endswith(" died")
        self._is_over.set()


class StuckTrainer(ToyTrainer):
    """Its last rank never loads."""

    def load(
        self, recipe: dict[str, Any], model_folder: str, threads: int, index: int, count: int, address: str
    ) -> None:
        if index == count - 1:
            threading.Event().wait()


class DyingTrainer(ToyTrainer):
    """Its last rank dies while it loads."""

    def load(
        self, recipe: dict[str, Any], model_folder: str, threads: int, index: int, count: int, address: str
    ) -> None:
        if index == count - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait()
