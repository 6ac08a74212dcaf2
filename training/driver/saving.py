"""The run's checkpoints: one at a time, written while training goes on."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from training.checkpoint_sync import Uploads
from training.checkpoints import write_checkpoint
from training.driver.publisher import TrainerHandle
from training.waiting import Switchboard, Timeouts, blame, within

log = logging.getLogger("training")


class Saving:
    """Begins checkpoints and waits for them. An error of one ends the run, whether somebody waits for it or not."""

    def __init__(
        self,
        root: Path,
        *,
        keep: int,
        trainer: TrainerHandle,
        switch: Switchboard,
        timeouts: Timeouts,
        uploads: Uploads | None,
    ) -> None:
        self._root, self._keep, self._trainer = root, keep, trainer
        self._switch, self._timeouts, self._uploads = switch, timeouts, uploads
        self._save: asyncio.Task[None] | None = None

    def begin(self, step: int, files: Callable[[], Mapping[str, bytes]]) -> None:
        """Of the trainer as it is after the calls made so far. `files` is called in a thread. Not before `settle`.

        Raises CheckpointError where the folder cannot be made.
        """
        held = self._uploads.held if self._uploads else tuple
        writing = write_checkpoint(self._root, step, files, self._save_trainer, keep=self._keep, held=held)
        self._save = self._switch.watch(self._finish(step, writing), name=f"checkpoint {step}")

    async def settle(self) -> None:
        """Wait until the one that was begun is complete. Raises CheckpointError where it was not written."""
        if self._save is not None:
            await self._switch.result(
                asyncio.shield(self._save),
                what="the checkpoint before to be written",
                timeout=2 * self._timeouts.checkpoint,
                stoppable=False,
            )

    async def give_up(self, seconds: float) -> None:
        """After an error elsewhere: the one that was begun has so long to become complete. Raises nothing."""
        if self._save is not None:
            await asyncio.wait({self._save}, timeout=seconds)
            self._save.cancel()

    async def _finish(self, step: int, writing: Awaitable[Path]) -> None:
        began = time.monotonic()
        folder = await writing
        log.info("the checkpoint of step %d was written in %.1f s", step, time.monotonic() - began)
        if self._uploads:
            self._uploads.offer(folder)

    def _save_trainer(self, path: str) -> Awaitable[None]:
        """The trainer is called at once: what it is asked next comes after it has copied its state."""
        return self._saved(asyncio.ensure_future(self._trainer.save(path)))

    async def _saved(self, saving: Awaitable[None]) -> None:
        with blame("the trainer"):
            await within(saving, what="the trainer to save", timeout=self._timeouts.checkpoint)
