"""Checkpoints are written while training goes on: of the moment when they began, one at a time, all in the end."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.driver.test_controller import Setup, change
from tests.training.fakes import HashGenerator, HashTrainer
from training.checkpoints import CheckpointError, complete_by_step, newest_checkpoint, refuse_damaged
from training.recipe import Recipe
from training.rollouts import Completion, Request
from training.trainer.batching import Batch, StepResult
from training.waiting import PartFailed, Timeouts

PATIENT = Timeouts(generation=60, training=60, evaluation=60, transfer=60, checkpoint=60, closing=0.5)


@pytest.fixture
def recipe(toy_recipe: Recipe) -> Recipe:
    """Asynchronous, with a checkpoint every third step and two in the end."""
    return change(
        toy_recipe,
        offpolicy__k=2,
        budget__max_steps=8,
        eval__every_steps=50,
        checkpoint__every_steps=3,
        checkpoint__keep=9,
    )


class SlowSaver(HashTrainer):
    """Its saves hold what it was when they began, and end when `may_end` lets them."""

    def __init__(self, until_step: int = 0, fails: bool = False) -> None:
        super().__init__()
        self.begun: list[int] = []
        self.ended_at: dict[int, int] = {}  # of the save of a step: the trainer's step then
        self._until_step, self._fails = until_step, fails
        self.has_trained = asyncio.Condition()

    async def train_step(self, batch: Batch) -> StepResult:
        result = await super().train_step(batch)
        async with self.has_trained:
            self.has_trained.notify_all()
        return result

    async def save(self, path: str) -> None:
        step, content = self.step, json.dumps({"step": self.step, "state": self.state})
        self.begun.append(step)
        assert len(self.begun) == len(self.ended_at) + 1
        async with self.has_trained:
            await self.has_trained.wait_for(lambda: self.step >= self._until_step)
        if self._fails:
            raise OSError("no space")
        Path(path).write_text(content)
        self.ended_at[step] = self.step


def test_training_goes_on_while_a_checkpoint_is_written(recipe: Recipe, tmp_path: Path) -> None:
    slow = SlowSaver(until_step=5)
    setup = Setup(recipe, tmp_path, engine=HashGenerator(), trainer=slow, timeouts=PATIENT)

    assert setup.run().state == "succeeded"

    assert slow.ended_at[3] >= 5 and slow.begun == [3, 6, 8]
    found = complete_by_step(tmp_path / "checkpoints")
    assert list(found) == [3, 6, 8]
    for step, folder in found.items():
        refuse_damaged(folder)
        saved = json.loads((folder / "trainer").read_text())
        driver = json.loads((folder / "driver.json").read_text())
        assert (saved["step"], driver["step"]) == (step, step)
        arrays = np.load(folder / "samples.npz")
        samples = [sample for group in driver["groups"] for sample in group["samples"]]
        assert sum(sample["tokens"] for sample in samples) == len(arrays["responses"])


def test_the_next_checkpoint_waits_for_the_one_before(recipe: Recipe, tmp_path: Path) -> None:
    slow = SlowSaver(until_step=6)  # asserts that it has one save at a time

    Setup(recipe, tmp_path, engine=HashGenerator(), trainer=slow, timeouts=PATIENT).run()

    assert slow.ended_at[3] == 6 and slow.begun == [3, 6, 8]


def test_a_run_that_is_stopped_waits_for_its_last_save(recipe: Recipe, tmp_path: Path) -> None:
    slow = SlowSaver(until_step=3)
    setup = Setup(change(recipe, budget__max_steps=1000), tmp_path, engine=HashGenerator(), trainer=slow)

    async def run() -> Any:
        running = asyncio.ensure_future(setup.controller.run())
        async with slow.has_trained:
            await slow.has_trained.wait_for(lambda: slow.step >= 4)
        setup.controller.stop()
        return await asyncio.wait_for(running, 60)

    outcome = asyncio.run(run())

    assert outcome.state == "cancelled"
    newest = newest_checkpoint(tmp_path / "checkpoints")
    assert newest is not None and newest.step == outcome.step == slow.begun[-1]


def test_a_save_that_fails_ends_the_run_although_nobody_waits_for_it(recipe: Recipe, tmp_path: Path) -> None:
    class Stuck(SlowSaver):
        async def train_step(self, batch: Batch) -> StepResult:
            if self.step == 4:
                await asyncio.Event().wait()
            return await super().train_step(batch)

    stuck = Stuck(until_step=4, fails=True)
    setup = Setup(recipe, tmp_path, engine=HashGenerator(), trainer=stuck, timeouts=PATIENT)

    with pytest.raises(CheckpointError, match="checkpoint of step 3 cannot be written .*no space"):
        setup.run()
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_save_under_way_outlives_an_error_elsewhere(recipe: Recipe, tmp_path: Path) -> None:
    class Broken(HashGenerator):
        async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
            if slow.begun and not self.has_failed:
                self.has_failed = True
                asyncio.get_running_loop().call_later(0.05, slow.let_end)
                raise RuntimeError("broken engine")
            return await super().generate(requests, temperature)

        has_failed = False

    class Held(SlowSaver):
        def let_end(self) -> None:
            self._until_step = 0
            self.tasks = asyncio.ensure_future(self._tell())

        async def _tell(self) -> None:
            async with self.has_trained:
                self.has_trained.notify_all()

    slow = Held(until_step=10**6)
    setup = Setup(recipe, tmp_path, engine=Broken(), trainer=slow, timeouts=PATIENT)

    with pytest.raises(PartFailed, match="broken engine"):
        setup.run()
    newest = newest_checkpoint(tmp_path / "checkpoints")
    assert newest is not None and newest.step == 3
