"""Actors around the generator and the trainer of tests.training.fakes: a whole run without torch."""

import asyncio
import inspect
from typing import Any

import ray

from tests.training.fakes import HashGenerator, HashTrainer
from training.cluster.actors import SAVE, GeneratorActor, TrainerActor


class HashGeneratorActor(GeneratorActor):
    async def load(
        self, recipe: dict[str, Any], model_folder: str, threads: int, gpus: list[str]
    ) -> list[int]:
        self._engine = HashGenerator()
        return []

    async def call(self, method: str, *args: Any) -> Any:
        """No faster than a test can look: a run of many steps would take a whole core until it is ended."""
        if method == "until_dead":  # it has no processes
            await self.alive()
        if method == "generate":
            await asyncio.sleep(0.05)
        return await super().call(method, *args)

    async def kv_tokens(self) -> int:
        return 1000

    async def shutdown(self) -> None:
        """It has no processes."""


class HashTrainerActor(TrainerActor):
    def load(
        self, recipe: dict[str, Any], model_folder: str, threads: int, index: int, count: int, address: str
    ) -> None:
        self._trainer = HashTrainer()

    def call(self, method: str, *args: Any) -> Any:
        answer = super().call("save" if method == "begin_save" else method, *args)
        return asyncio.run(answer) if inspect.iscoroutine(answer) else answer

    @ray.method(concurrency_group=SAVE)
    def end_save(self, begun: None) -> None:
        """It is written when it has begun."""

    def export(self, checkpoint: str, base_model: str, out: str, dtype: str) -> None:
        """There is no model to write."""
