"""Benchmarks among a run's evaluations (`eval.downstream`)."""

import asyncio
from pathlib import Path

import pytest

from tests.training.driver.test_controller import Setup, change
from tests.training.fakes import HashGenerator, HashTrainer
from training.checkpoints import newest_checkpoint
from training.recipe import Recipe, RecipeError, check_runnable
from training.rollouts import Completion, Request

SMALL = {"max_digits": 2, "held_out_pool": 5, "train_prompts": 20}
PROMPTS = {"arithmetic": 5 * 3, "countdown": 3}  # requests of each


@pytest.fixture
def recipe(toy_recipe: Recipe) -> Recipe:
    """Six steps, evaluated after each second one, and one benchmark at each second evaluation only."""
    countdown = {"task": "countdown", "options": {"form": "compact", "held_out_pool": 3, "train_prompts": 20}}
    return change(
        toy_recipe,
        offpolicy__k=2,
        curriculum__mode="uniform",
        budget__max_steps=6,
        checkpoint__every_steps=100,
        eval__every_steps=2,
        eval__downstream=[{"task": "arithmetic", "options": SMALL, "k": 3, "every_steps": 4}, countdown],
    )


def test_due_benchmarks_are_taken_in_the_pause_and_the_last_weights_get_all(
    recipe: Recipe, tmp_path: Path
) -> None:
    setup = Setup(recipe, tmp_path, engine=HashGenerator(), trainer=HashTrainer())

    assert setup.run().step == 6

    of = setup.reporter.series
    assert list(of("downstream/arithmetic")) == [0, 4, 6]
    assert list(of("downstream/countdown")) == list(of("eval/pass_rate")) == [0, 2, 4, 6]
    assert all(0 <= error < 1 for error in of("downstream/arithmetic_stderr").values())
    assert set(of("downstream/countdown_contamination").values()) == {0}
    evaluated = [record for record in setup.reporter.records if record["step"] == 4][-3:]
    assert len({str(record["compute"]) for record in evaluated}) == 1  # the clock stands still


@pytest.mark.parametrize("stopped_in", PROMPTS)
def test_a_resume_takes_what_is_open_alone(recipe: Recipe, tmp_path: Path, stopped_in: str) -> None:
    class StopsAtStep4(HashGenerator):
        async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
            if len(requests) == PROMPTS[stopped_in] and self.version == 4:
                first.controller.stop()
                await asyncio.Event().wait()
            return await super().generate(requests, temperature)

    first = Setup(recipe, tmp_path, engine=StopsAtStep4(), trainer=HashTrainer())
    assert first.run().state == "cancelled"
    checkpoint = newest_checkpoint(tmp_path / "checkpoints")
    second = Setup(recipe, tmp_path, checkpoint, engine=HashGenerator(), trainer=HashTrainer())
    second.run()

    for name, steps in (("eval/pass_rate", [0, 2, 4, 6]), ("downstream/countdown", [0, 2, 4, 6])):
        assert [*first.reporter.series(name), *second.reporter.series(name)] == steps
    taken = [
        *first.reporter.series("downstream/arithmetic"),
        *second.reporter.series("downstream/arithmetic"),
    ]
    assert taken == [0, 4, 6]


@pytest.mark.parametrize(
    ("downstream", "reason"),
    [
        ([{"task": "chess"}], "no benchmark named 'chess'"),
        ([{"task": "lm_eval/arc_easy"}], "lm_eval/arc_easy is for `evaluate` alone"),
        ([{"task": "math", "options": {"path": "gone.jsonl"}}], "data/gone.jsonl: no such file"),
        ([{"task": "gsm8k"}, {"task": "gsm8k"}], "downstream names a task twice"),
        ([{"task": "gsm8k", "every_steps": 3}], "must be a multiple of eval.every_steps"),
    ],
)
def test_what_cannot_be_taken_is_refused_before_the_run(
    recipe: Recipe, downstream: list[dict], reason: str
) -> None:
    with pytest.raises(RecipeError, match=reason) as refused:
        check_runnable(change(recipe, eval__downstream=downstream))
    assert refused.value.field in ("eval", "eval.downstream")


def test_a_prompt_that_does_not_fit_is_said_with_its_benchmark(recipe: Recipe, tmp_path: Path) -> None:
    long = {"task": "countdown", "options": {"held_out_pool": 3, "train_prompts": 20}}
    with pytest.raises(ValueError, match="3 of 3 prompts of the benchmark countdown cannot be used"):
        Setup(
            change(recipe, eval__downstream=[long]), tmp_path, engine=HashGenerator(), trainer=HashTrainer()
        )
