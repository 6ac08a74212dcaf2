"""Whole runs in which engines die: in generation, in a swap of weights, in an evaluation. The run goes on.

Engines and trainer depend on all that they are given, so that a run in which generation and training take turns has to
end with the same weights as the undisturbed one.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.training.driver.test_controller import Setup, change
from tests.training.fakes import HashGenerator, HashTrainer, Lengths
from training.engines.pool import EnginePool
from training.errors import EngineLost
from training.recipe import Recipe
from training.rollouts import Completion, Request

STEPS, PROMPTS = 6, 2
MODES: dict[str, dict[str, Any]] = {
    "synchronous": {"offpolicy__k": 0},
    "blocks": {"offpolicy__mode": "ppo", "offpolicy__k": 2},
    "pipeline": {"offpolicy__k": 2},
}
BOUND = {"synchronous": 0, "blocks": 1, "pipeline": 2}
MOMENTS = ("generation", "swap", "evaluation")


class Killed(RuntimeError, EngineLost):
    """What a dead engine's calls end with."""


class Mortal(HashGenerator):
    """Dies at a moment, with all its calls; `held` is the version of its weights at its first request."""

    def __init__(self, moment: str = "", *, pace: int = 0) -> None:
        super().__init__(pace, self._on_token)
        self._moment, self._is_dead, self._death = moment, False, asyncio.Event()
        self._was_interrupted = False
        self.held: int | None = None

    def _die(self) -> None:
        self._is_dead = True
        self._death.set()

    def _on_token(self, count: int) -> None:
        is_training = self.version >= 1 and not self._was_interrupted
        if self._moment == "generation" and is_training and count % 7 == 3:
            self._die()

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        self.held = self.version if self.held is None else self.held
        if self._moment == "evaluation" and self._was_interrupted and self.version >= 1:
            self._moment = "generation"  # with its first tokens
        self._was_interrupted = False
        return await self._or_die(super().generate(requests, temperature))

    async def update_weights(self, weights: Any, version: int) -> None:
        await self._or_die(super().update_weights(weights, version))
        if self._moment == "swap" and version >= 2:
            self._die()
            raise Killed("killed in a swap")

    async def interrupt(self) -> None:
        self._was_interrupted = True
        await self._or_die(super().interrupt())

    async def _or_die(self, work: Any) -> Any:
        task, death = asyncio.ensure_future(work), asyncio.ensure_future(self._death.wait())
        try:
            await asyncio.wait({task, death}, return_when=asyncio.FIRST_COMPLETED)
            if self._is_dead:
                raise Killed("killed")
            return task.result()
        finally:
            task.cancel()
            death.cancel()


class Run:
    """One run with several engines, of which the first ones are mortal."""

    def __init__(self, recipe: Recipe, folder: Path, moments: list[str]) -> None:
        self.engines = [Mortal(moment, pace=number) for number, moment in enumerate(moments)]
        self.made: list[tuple[int, Mortal]] = []  # version of the trainer then, engine
        self.pool = EnginePool(list(self.engines), replace=self._replace)
        self.trainer = HashTrainer()
        self.setup = Setup(
            recipe,
            folder,
            task=Lengths.model_validate(recipe.task.options),
            engine=self.pool,
            trainer=self.trainer,
            num_lost_engines=lambda: self.pool.num_lost,
        )
        self.outcome = self.setup.run()

    async def _replace(self, seat: int, error: Exception) -> Mortal:
        for _ in range(20):
            await asyncio.sleep(0)
        engine = Mortal(pace=100 + len(self.made))
        self.made.append((self.setup.controller._shared.buffer.generator_version, engine))
        return engine


@pytest.fixture
def recipe(toy_recipe: Recipe) -> Recipe:
    """Six steps of two prompts out of twenty, evaluated after each second one."""
    return change(
        toy_recipe,
        task__options={"min_digits": 1, "max_digits": 1, "train_prompts": 20, "held_out_pool": 16},
        curriculum__mode="uniform",
        budget__max_steps=STEPS,
        eval__every_steps=2,
        checkpoint__every_steps=100,
    )


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("others", [3, 0], ids=["one_of_four", "the_only_one"])
def test_run_goes_on(recipe: Recipe, tmp_path: Path, mode: str, moment: str, others: int) -> None:
    recipe = change(recipe, **MODES[mode])

    run = Run(recipe, tmp_path / "run", [moment] + [""] * others)

    assert (run.outcome.state, run.outcome.step) == ("succeeded", STEPS)
    check_whole(run, mode)
    lost = run.setup.reporter.series("perf/lost_engines")
    assert run.pool.num_lost == 1 and lost[1] <= lost[STEPS] == 1
    if mode != "pipeline":
        undisturbed = Run(recipe, tmp_path / "undisturbed", [""] * (1 + others))
        assert run.trainer.state == undisturbed.trainer.state


@pytest.mark.parametrize("mode", MODES)
def test_engines_that_die_at_every_moment(recipe: Recipe, tmp_path: Path, mode: str) -> None:
    run = Run(change(recipe, **MODES[mode]), tmp_path, [*MOMENTS, ""])

    assert run.pool.num_lost == 3
    check_whole(run, mode)


def check_whole(run: Run, mode: str) -> None:
    """Steps, evaluations, staleness, prompts and the weights of new engines are as if nobody had died."""
    series = run.setup.reporter.series
    assert list(series("train/loss")) == list(range(1, STEPS + 1))
    assert list(series("eval/pass_rate")) == [0, 2, 4, 6]
    assert max(series("train/staleness_max").values()) <= BOUND[mode]
    for step, newest in series("train/version_newest").items():
        assert step - 1 - BOUND[mode] <= series("train/version_oldest")[step] <= newest <= step - 1
    trained = Counter(prompt for prompts in run.trainer.trained.values() for prompt in prompts)
    assert len(trained) == trained.total() == STEPS * PROMPTS  # each once
    assert all(engine.held is None or engine.held >= version for version, engine in run.made)
    assert run.pool.owed == [0] * len(run.engines)
