"""Evaluations of a pipeline: running groups are interrupted, not waited for, and gone on with where they were."""

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.training.driver.test_controller import Setup, change
from tests.training.fakes import HashGenerator, HashTrainer, Lengths
from training.checkpoints import newest_checkpoint
from training.recipe import Recipe
from training.rollouts import Completion, Request
from training.verifiers.base import Verdict
from training.verifiers.service import Verification


@pytest.fixture
def recipe(toy_recipe: Recipe) -> Recipe:
    """Six steps of two prompts, evaluated after each second one."""
    return change(
        toy_recipe,
        offpolicy__k=2,
        length__mode="none",
        curriculum__mode="uniform",
        budget__max_steps=6,
        eval__every_steps=2,
        checkpoint__every_steps=100,
    )


class Watched(HashGenerator):
    """Knows evaluations by their number of requests, and keeps every answer to training's by the seed of its sample.

    Responses of `endless` samples end when they are interrupted, and in no other way, as often as `patience` says.
    """

    def __init__(self, recipe: Recipe, *, endless: int = 0, patience: int = 1) -> None:
        super().__init__()
        self._num_evaluated = recipe.eval.prompts * recipe.eval.k
        self._endless, self._patience = endless, patience
        self._evaluation: set[int | None] = set()  # seeds
        self._is_evaluating = False
        self.running = 0
        self.evaluated: list[int] = []  # version, at each evaluation
        self.beside: list[int] = []  # calls of training that ran at the same time as an evaluation
        self.answers: dict[int, list[tuple[Request, Completion]]] = defaultdict(list)

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        if len(requests) == self._num_evaluated:
            return await self._evaluate(requests, temperature)
        self.running += 1
        self.beside[-1] += self._is_evaluating
        try:
            return await super().generate(requests, temperature)
        finally:
            self.running -= 1

    async def _evaluate(self, requests: list[Request], temperature: float) -> list[Completion]:
        self._evaluation = {request.seed for request in requests}
        self.evaluated.append(self.version)
        self.beside.append(self.running)
        self._is_evaluating = True
        completions = await super().generate(requests, temperature)
        for _ in range(50):  # time for all that could begin meanwhile
            await asyncio.sleep(0)
        self._is_evaluating = False
        return completions

    async def _complete(self, request: Request, interrupted: asyncio.Event) -> Completion:
        if request.seed is None or request.seed in self._evaluation:
            return await super()._complete(request, interrupted)
        parts = self.answers[request.seed]  # in the order in which they begin
        made = await super()._complete(request, interrupted)
        if len(parts) < self._patience and list(self.answers).index(request.seed) < self._endless:
            await interrupted.wait()
            kept = len(made.tokens) // 2
            made = Completion(made.tokens[:kept], made.logp[:kept], False, made.versions[:kept], True)
        parts.append((request, made))
        return made


class Kept(HashTrainer):
    """Keeps its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Any] = []

    async def train_step(self, batch: Any) -> Any:
        self.batches.append(batch)
        return await super().train_step(batch)


def test_evaluation_has_the_generator_to_itself_and_the_newest_weights(
    recipe: Recipe, tmp_path: Path
) -> None:
    engine = Watched(recipe, endless=1)
    setup = Setup(recipe, tmp_path, task=Lengths(), engine=engine, trainer=HashTrainer())

    setup.run()

    assert engine.evaluated == [0, 2, 4, 6]
    assert engine.beside == [0, 0, 0, 0]
    assert any(part.interrupted for parts in engine.answers.values() for _, part in parts)
    assert list(setup.reporter.series("eval/pass_rate")) == [0, 2, 4, 6]


def test_straggler_holds_neither_steps_nor_evaluations_up_and_is_trained_whole(
    recipe: Recipe, tmp_path: Path
) -> None:
    """The first group never ends by itself before the evaluation after step 2: batches and that evaluation pass it."""
    first_group = recipe.rollout.generations_per_prompt
    engine, trainer = Watched(recipe, endless=first_group), Kept()
    setup = Setup(recipe, tmp_path, task=Lengths(), engine=engine, trainer=trainer)

    outcome = setup.run()

    assert outcome.step == 6
    assert setup.reporter.series("train/staleness_max")[3] == 2  # it was trained as late as it may be
    assert max(setup.reporter.series("train/staleness_max").values()) <= 2
    stragglers = list(engine.answers.values())[:first_group]
    for (begun, cut), (gone_on, rest) in stragglers:
        assert cut.interrupted and not rest.interrupted
        assert gone_on.tokens == begun.tokens + cut.tokens and gone_on.position == len(cut.tokens)
        assert gone_on.max_tokens == begun.max_tokens - len(cut.tokens)
        assert set(cut.versions) <= {0} and set(rest.versions) == {2}
    whole = [begun.tokens + cut.tokens + rest.tokens for (begun, cut), (_, rest) in stragglers]
    third = trainer.batches[2]
    rows = [third.tokens[row, : third.lengths[row]].tolist() for row in range(len(third.lengths))]
    assert rows[:first_group] == whole


def test_stop_during_an_evaluation_keeps_interrupted_groups(recipe: Recipe, tmp_path: Path) -> None:
    class StopsAtStep2(Watched):
        async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
            if len(requests) == self._num_evaluated and self.version == 2:
                first.controller.stop()
                await asyncio.Event().wait()
            return await super().generate(requests, temperature)

    engine = StopsAtStep2(recipe, endless=recipe.rollout.generations_per_prompt)
    first = Setup(recipe, tmp_path, task=Lengths(), engine=engine, trainer=HashTrainer())
    stopped = first.run()
    checkpoint = newest_checkpoint(tmp_path / "checkpoints")
    assert checkpoint is not None
    groups, num_finished = checkpoint.driver["groups"], checkpoint.driver["num_finished"]
    second_engine = Watched(recipe)
    second = Setup(recipe, tmp_path, checkpoint, task=Lengths(), engine=second_engine, trainer=HashTrainer())
    second.run()

    assert (stopped.state, stopped.step) == ("cancelled", 2)
    partial = {
        group["number"]: sum(sample["tokens"] for sample in group["samples"])
        for group in groups[num_finished:]
    }
    kept = [parts[0][1] for parts in list(engine.answers.values())[: recipe.rollout.generations_per_prompt]]
    assert partial[0] == sum(len(completion.tokens) for completion in kept) > 0
    continued = {r.seed: r.position for r in second_engine.requests if r.position}
    for (seed, _), completion in zip(engine.answers.items(), kept, strict=False):
        assert continued.get(seed, 0) == len(completion.tokens)
    assert list(second.reporter.series("eval/pass_rate")) == [2, 4, 6]


class Late(Verification):
    """Finds everything right; keeps the first answer of training back until told to give it."""

    def __init__(self) -> None:
        super().__init__()
        self.give = asyncio.Event()
        self.is_training = False
        self._is_kept = False

    async def verify(self, verifier: Any, answer: str, response: str) -> Verdict:
        if self.is_training and not self._is_kept:
            self._is_kept = True
            await self.give.wait()
        return Verdict(True)


def test_group_replaced_during_an_evaluation_begins_after_it(recipe: Recipe, tmp_path: Path) -> None:
    """A verifier answers in the middle of an evaluation: another prompt is due, and the generator is taken."""
    verification = Late()

    class Slow(Watched):
        async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
            if verification.is_training and len(requests) == self._num_evaluated:
                verification.give.set()
            completions = await super().generate(requests, temperature)
            verification.is_training |= len(requests) != self._num_evaluated
            return completions

    recipe = change(recipe, filter__zero_variance="refill", filter__max_refills=1)
    engine = Slow(recipe)
    setup = Setup(
        recipe, tmp_path, task=Lengths(), engine=engine, trainer=HashTrainer(), verification=verification
    )

    setup.run()

    assert verification.give.is_set()
    assert sum(setup.reporter.series("train/refills").values()) >= 6 * recipe.rollout.prompts_per_step
    assert engine.beside == [0, 0, 0, 0]
