"""Whatever breaks ends the run at once, with an error that names it; nothing waits for ever."""

import asyncio
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import MemoryReporter
from tests.training.driver.test_controller import Setup, change
from tests.training.fakes import EvenLength, HashGenerator, HashTrainer, Lengths
from tests.training.verifiers.judges import Crashing, Judge
from training.checkpoints import CheckpointError, newest_checkpoint
from training.driver.parity import ParityError
from training.recipe import Recipe
from training.rollouts import Completion, Request
from training.tasks import Prompt
from training.trainer.batching import Batch, StepResult
from training.verifiers.base import Isolation, Verdict
from training.verifiers.service import RewardError, Verification
from training.waiting import PartFailed, Timeouts, WaitTimeout

PATIENT = Timeouts(generation=60, training=60, evaluation=60, transfer=60, checkpoint=60, closing=0.2)
WAITS = {
    "generate": "generation", "update_weights": "transfer", "train_step": "training", "save": "checkpoint",
}  # fmt: skip


@pytest.fixture
def recipe(toy_recipe: Recipe) -> Recipe:
    """Twenty asynchronous steps, evaluated at the ends alone."""
    return change(toy_recipe, offpolicy__k=2, budget__max_steps=20, eval__every_steps=50)


class Generator(HashGenerator):
    """Does something else instead of one of its calls once it has weights of version 2."""

    def __init__(self, call: str, instead: Any) -> None:
        super().__init__()
        self._call, self._instead = call, instead

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        if self._call == "generate" and self.version >= 2:
            await self._instead()
        return await super().generate(requests, temperature)

    async def update_weights(self, weights: Any, version: int) -> None:
        if self._call == "update_weights" and version >= 2:
            await self._instead()
        await super().update_weights(weights, version)


class Trainer(HashTrainer):
    """The same for a trainer after two steps."""

    def __init__(self, call: str, instead: Any) -> None:
        super().__init__()
        self._call, self._instead = call, instead

    async def train_step(self, batch: Batch) -> StepResult:
        if self._call == "train_step" and self.step >= 2:
            await self._instead()
        return await super().train_step(batch)

    async def save(self, path: str) -> None:
        if self._call == "save":
            await self._instead()
        await super().save(path)


async def fail() -> None:
    raise RuntimeError("first line\n  actor died")


async def hang() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("generate", "^the generator failed: actor died$"),
        (
            "update_weights",
            "^sending weights of version 2 from the trainer to the generator failed: actor died$",
        ),
        ("train_step", "^the trainer failed: actor died$"),
        ("save", "^the checkpoint of step 2 cannot be written to .*: the trainer failed: actor died$"),
    ],
)
def test_broken_part_is_named(recipe: Recipe, tmp_path: Path, call: str, message: str) -> None:
    setup = Setup(recipe, tmp_path, engine=Generator(call, fail), trainer=Trainer(call, fail))

    with pytest.raises((PartFailed, CheckpointError), match=message):
        setup.run()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("generate", "waited 0.2 s for the generator to (complete 4 responses|finish the next batch)"),
        ("update_weights", "waited 0.2 s for the generator to take weights of version 2"),
        ("train_step", "waited 0.2 s for the trainer to make step 3"),
        ("save", "the checkpoint of step 2 cannot be written .* waited 0.2 s for the trainer to save"),
    ],
)
def test_part_that_never_answers_is_named(recipe: Recipe, tmp_path: Path, call: str, message: str) -> None:
    timeouts = replace(PATIENT, **{WAITS[call]: 0.2})  # else two waits end at the same time
    setup = Setup(
        recipe, tmp_path, engine=Generator(call, hang), trainer=Trainer(call, hang), timeouts=timeouts
    )

    with pytest.raises((WaitTimeout, CheckpointError), match=message):
        setup.run()


def test_failed_push_ends_the_run_although_nobody_waits_for_it(recipe: Recipe, tmp_path: Path) -> None:
    """The trainer is in the middle of a step that would never end."""
    setup = Setup(
        change(recipe, offpolicy__k=8),
        tmp_path,
        engine=Generator("update_weights", fail),
        trainer=Trainer("train_step", hang),
    )

    with pytest.raises(PartFailed, match="sending weights of version 2"):
        setup.run()


def test_failed_save_leaves_the_checkpoint_before_it(recipe: Recipe, tmp_path: Path) -> None:
    Setup(change(recipe, budget__max_steps=2), tmp_path, engine=HashGenerator(), trainer=HashTrainer()).run()
    before = newest_checkpoint(tmp_path / "checkpoints")
    setup = Setup(recipe, tmp_path, before, engine=HashGenerator(), trainer=Trainer("save", fail))

    with pytest.raises(CheckpointError, match="step 4"):
        setup.run()
    assert newest_checkpoint(tmp_path / "checkpoints") == before


def test_generator_that_lies_about_its_probabilities_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    class Trusting(HashTrainer):
        async def logp(self, batch: Batch) -> Any:
            return batch.behaviour_logp + 0.5

    setup = Setup(recipe, tmp_path, engine=HashGenerator(), trainer=Trusting())

    with pytest.raises(ParityError, match=r"disagree by 0.5 nats"):
        setup.run()


class Judged(Lengths):
    """The given verifier judges."""

    def __init__(self, verifier: Any) -> None:
        super().__init__()
        self.__dict__["judge"] = verifier

    def verifier(self, prompt: Prompt) -> Any:
        return self.__dict__["judge"]


def judged_by(
    verifier: Any, recipe: Recipe, tmp_path: Path, verification: Verification | None = None
) -> Setup:
    """A run of one step with one prompt, whose responses `verifier` judges."""
    small = change(
        recipe,
        rollout__prompts_per_step=1,
        rollout__generations_per_prompt=2,
        offpolicy__k=0,
        eval__prompts=1,
        budget__max_steps=1,
    )
    return Setup(
        small,
        tmp_path,
        task=Judged(verifier),
        engine=HashGenerator(),
        trainer=HashTrainer(),
        verification=verification,
    )


def test_crashing_verifier_is_counted(
    recipe: Recipe, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    verification = Verification(processes=1)
    setup = judged_by(Crashing(), recipe, tmp_path, verification)

    assert setup.run().state == "succeeded"
    assert setup.reporter.series("train/verifier_failure_rate") == {1: 1.0}
    assert setup.reporter.series("eval/verifier_failure_rate") == {0: 1.0, 1: 1.0}
    warnings = [record.message for record in caplog.records if "could not judge" in record.message]
    assert warnings == ["2 x the verifier could not judge: crashed: exit status 3"] * 3
    assert [worker._process for worker in verification._workers if worker._process] == []


def test_reward_process_that_dies_again_and_again_ends_the_run(recipe: Recipe, tmp_path: Path) -> None:
    verification = Verification(processes=1, max_unanswered=3)
    setup = judged_by(Crashing(), recipe, tmp_path, verification)

    with pytest.raises(RewardError, match="process of Crashing did not answer 3 times in a row"):
        setup.run()
    assert [worker._process for worker in verification._workers if worker._process] == []


@dataclass(frozen=True)
class Hanging(Judge):
    """Never answers."""

    timeout_seconds: float = 0.1

    def verify(self, answer: str, response: str) -> Verdict:
        return super().verify(answer, "hang")


def test_wedged_reward_process_ends_the_run(recipe: Recipe, tmp_path: Path) -> None:
    setup = judged_by(Hanging(), recipe, tmp_path, Verification(processes=1, max_unanswered=2))

    with pytest.raises(RewardError, match="process of Hanging .* last: timed out after 0.1 s"):
        setup.run()


class Slow(Verification):
    """Judges the training prompts' samples only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.num_waiting = 0

    async def verify(self, verifier: Any, answer: str, response: str) -> Verdict:
        self.num_waiting += 1
        await self.may_answer.wait()
        return await super().verify(verifier, answer, response)


def test_slow_verifier_does_not_block_the_generation_of_other_prompts(recipe: Recipe, tmp_path: Path) -> None:
    """One group at a time fits the generator; all that the bound allows are generated although none is judged."""
    recipe = change(recipe, rollout__max_in_flight_prompts=1, offpolicy__k=2, budget__max_steps=1)
    slow = Slow()
    num_evaluated, num_allowed = recipe.eval.prompts * recipe.eval.k, 3 * recipe.rollout.prompts_per_step
    wanted = num_evaluated + num_allowed * recipe.rollout.generations_per_prompt

    class Watching(HashGenerator):
        async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
            made = await super().generate(requests, temperature)
            asyncio.get_running_loop().call_soon(self._look)
            return made

        def _look(self) -> None:
            if len(self.requests) == num_evaluated or len({r.seed for r in self.requests}) >= wanted:
                slow.may_answer.set()

    class ClosesAfterTheFirstEvaluation(MemoryReporter):
        def log(self, metrics: Any, *, step: int, compute: Any = None) -> None:
            super().log(metrics, step=step, compute=compute)
            if step == 0:
                slow.may_answer.clear()

    setup = Setup(
        change(recipe, length__mode="none"),
        tmp_path,
        task=Lengths(),
        engine=Watching(),
        trainer=HashTrainer(),
        reporter=ClosesAfterTheFirstEvaluation(),
        verification=slow,
    )

    assert setup.run().state == "succeeded"


@dataclass(frozen=True)
class Unprintable:
    isolation: Isolation = "inline"
    timeout_seconds: float = 1.0

    def verify(self, answer: str, response: str) -> Verdict:
        raise ValueError("no idea")


@pytest.mark.parametrize("verifier", [EvenLength(), Unprintable()])
def test_inline_verifier_that_raises_is_a_counted_failure(
    recipe: Recipe, tmp_path: Path, verifier: Any
) -> None:
    setup = judged_by(verifier, recipe, tmp_path)

    assert setup.run().state == "succeeded"
    rate = setup.reporter.series("train/verifier_failure_rate")[1]
    assert rate == float(isinstance(verifier, Unprintable))
