"""Admission of prompts and dynamic sampling, with a generator and a trainer without torch."""

from pathlib import Path
from typing import Any

import pytest

from tests.training.driver.test_controller import Setup, change
from tests.training.fakes import HashGenerator, HashTrainer, Lengths
from training.checkpoints import newest_checkpoint
from training.recipe import Recipe
from training.tasks import Prompt
from training.verifiers.base import Verdict


class Stubborn(Lengths):
    """The first so many training prompts are always answered rightly, every other one half of the time."""

    def verifier(self, prompt: Prompt) -> Any:
        return self.__dict__.setdefault("judges", {}).setdefault(prompt.id, Judge(self, prompt.id))


class Judge:
    isolation, timeout_seconds = "inline", 1.0

    def __init__(self, task: Stubborn, prompt_id: str) -> None:
        self._task, self._prompt_id, self._count = task, prompt_id, 0

    def verify(self, answer: str, response: str) -> Verdict:
        asked = self._task.__dict__.setdefault("asked", [])
        if self._prompt_id not in asked:
            asked.append(self._prompt_id)
        self._count += 1
        is_stubborn = asked.index(self._prompt_id) < self._task.__dict__["stubborn"]
        return Verdict(is_stubborn or self._count % 2 == 0)


class Quiet(HashTrainer):
    """Counts the groups that teach."""

    async def train_step(self, batch: Any) -> Any:
        result = await super().train_step(batch)
        groups = [batch.rewards[batch.prompt_index == i] for i in set(batch.prompt_index.tolist())]
        result.metrics["effective_batch"] = float(sum(len(g) for g in groups if len(set(g.tolist())) > 1))
        return result


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize(("stubborn", "refills", "effective"), [(3, 3, 8), (100, 4, 0)])
def test_refill_tries_other_prompts_up_to_its_bound(
    toy_recipe: Recipe, tmp_path: Path, depth: int, stubborn: int, refills: int, effective: int
) -> None:
    recipe = change(
        toy_recipe,
        filter__zero_variance="refill",
        filter__max_refills=2,
        budget__max_steps=1,
        offpolicy__k=depth,
        rollout__max_untrained_prompts=2,
        curriculum__mode="no_positive_resampling",
        eval__prompts=1,
        eval__k=1,
        eval__every_steps=1,
    )
    task = Stubborn()
    task.__dict__["stubborn"] = stubborn + 1  # the held-out prompt comes first
    setup = Setup(recipe, tmp_path, task=task, engine=HashGenerator(), trainer=Quiet())

    setup.run()

    assert setup.reporter.series("train/refills") == {1: refills}
    assert setup.reporter.series("train/effective_batch") == {1: effective}
    checkpoint = newest_checkpoint(tmp_path / "checkpoints")
    assert checkpoint is not None
    asked = task.__dict__["asked"][1:]
    sampler = checkpoint.driver["sampler"]
    assert len(asked) == len(sampler["history"]) == 2 + refills  # the replaced ones count too
    assert sampler["removed"] == sorted(asked[: min(stubborn, 6)])


def test_prompts_that_run_out_end_the_run(toy_recipe: Recipe, tmp_path: Path) -> None:
    options = {"min_digits": 1, "max_digits": 1, "train_prompts": 5, "held_out_pool": 16}
    recipe = change(
        toy_recipe,
        task__options=options,
        curriculum__mode="no_positive_resampling",
        filter__zero_variance="drop",
        offpolicy__k=3,
        budget__max_steps=100,
    )
    task = Stubborn.model_validate(options)
    task.__dict__["stubborn"] = 100
    setup = Setup(recipe, tmp_path, task=task, engine=HashGenerator(), trainer=HashTrainer())

    outcome = setup.run()

    assert outcome.reason == "every training prompt is solved"
    assert 2 <= outcome.step < 20


@pytest.mark.parametrize(("limit", "most"), [(1, 1), (3, 3), (100, 6)])
def test_no_more_prompts_are_in_the_generator_than_allowed(
    toy_recipe: Recipe, tmp_path: Path, limit: int, most: int
) -> None:
    recipe = change(toy_recipe, rollout__max_in_flight_prompts=limit, offpolicy__k=2, eval__every_steps=100)

    class Counting(HashGenerator):
        running = most_running = 0

        async def generate(self, requests: Any, temperature: float) -> Any:
            if len(requests) == recipe.eval.prompts * recipe.eval.k:
                return await super().generate(requests, temperature)
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            try:
                return await super().generate(requests, temperature)
            finally:
                self.running -= 1

    engine = Counting()
    Setup(recipe, tmp_path, task=Lengths(), engine=engine, trainer=HashTrainer()).run()

    assert engine.most_running == most
