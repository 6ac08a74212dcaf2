"""New weights from the trainer to the generator, while both go on with their work."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, Protocol

from observability import tracing
from training.driver.staleness import WorkBuffer
from training.rollouts import Generator, Group
from training.trainer.batching import Batch, StepResult
from training.waiting import Switchboard, Timeouts, blame, within


class TrainerHandle(Protocol):
    """A trainer, here or behind a Ray actor. `weights` gives something that the generator accepts as payload. `save` is
    of the state after the calls made before it, and does not keep later ones from going on."""

    def train_step(self, batch: Batch) -> Awaitable[StepResult]: ...
    def logp(self, batch: Batch) -> Awaitable[Any]: ...
    def weights(self) -> Any: ...
    def save(self, path: str) -> Awaitable[None]: ...
    def load(self, path: str) -> Awaitable[int]: ...


class Publisher:
    """One push of weights at a time. An error in it ends the run, whether somebody waits for the push or not."""

    def __init__(
        self,
        *,
        trainer: TrainerHandle,
        generator: Generator,
        buffer: WorkBuffer[Group],
        switch: Switchboard,
        timeouts: Timeouts,
    ) -> None:
        self._trainer, self._generator, self._buffer = trainer, generator, buffer
        self._switch, self._timeouts = switch, timeouts
        self._push: asyncio.Task[None] | None = None
        self._sent: tuple[float, float] | None = None

    async def publish(self) -> None:
        """Begin to send the trainer's newest weights; waits for the push before."""
        await self.settle()
        self._push = self._switch.watch(self._publish(self._trainer.weights(), self._version), name="push")

    async def settle(self) -> None:
        """Wait for the push under way."""
        if self._push is not None:
            await self._switch.result(
                asyncio.shield(self._push),  # which has a deadline of its own
                what="the weights on their way to the generator",
                timeout=None,
                stoppable=False,
            )

    async def update_now(self, *, is_new: bool = False) -> None:
        """Have the generator hold the trainer's newest weights; a generator that `is_new` holds none of this run's.

        In the middle of a block of PPO-off-policy-k groups still count from the weights of its beginning.
        """
        await self.settle()
        if self._buffer.wants_push():
            await self._publish(self._trainer.weights(), self._version)
        elif is_new or self._buffer.generator_version < self._version:
            await self._send(self._trainer.weights(), self._version)

    def last_sent(self) -> tuple[float, float] | None:
        """When the weights that were sent last were on their way, in seconds since 1970; None where none were sent
        since this was last asked."""
        sent, self._sent = self._sent, None
        return sent

    def cancel(self) -> None:
        """Give up the push under way."""
        if self._push is not None:
            self._push.cancel()

    @property
    def _version(self) -> int:
        return self._buffer.trainer_version

    async def _publish(self, payload: Any, version: int) -> None:
        await self._send(payload, version)
        self._buffer.pushed(version)
        self._switch.changed()

    async def _send(self, payload: Any, version: int) -> None:
        began = time.time()
        told = f"sending weights of version {version} from the trainer to the generator"
        with tracing.span("weight update", version=version), blame(told):
            await within(
                self._generator.update_weights(payload, version),
                what=f"the generator to take weights of version {version}",
                timeout=self._timeouts.transfer,
            )
        self._sent = began, time.time()
