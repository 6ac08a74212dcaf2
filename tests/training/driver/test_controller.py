"""The driver with the transformers engine and the trainer in this process: real training, no Ray."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import LocalTrainer, MemoryReporter
from tests.training.fakes import HashGenerator, HashTrainer
from training.checkpoints import Checkpoint
from training.codec import Codec
from training.driver.controller import Controller, Outcome
from training.driver.snapshot import Attempt
from training.engines import make_engine
from training.flops import ModelShape
from training.recipe import Recipe, apply_overrides, load_recipe, recipe_names
from training.tasks import Task, make_task
from training.verifiers.service import Verification
from training.waiting import Timeouts


class Setup:
    """One attempt, ready to run; the real engine and trainer where no others are given."""

    def __init__(
        self,
        recipe: Recipe,
        run_dir: Path,
        resume: Checkpoint | None = None,
        *,
        task: Task | None = None,
        engine: Any = None,
        trainer: Any = None,
        reporter: MemoryReporter | None = None,
        verification: Verification | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        num_lost_engines: Callable[[], int] = lambda: 0,
    ) -> None:
        folder = Path(recipe.model)
        self.reporter = reporter or MemoryReporter()
        self.engine = engine or make_engine(recipe.model_dump(mode="json"), str(folder))
        self.trainer = trainer or LocalTrainer(recipe, folder)
        attempt = Attempt(
            recipe=recipe,
            task=task or make_task(recipe.task.name, recipe.task.options),
            codec=Codec(folder),
            generator=self.engine,
            trainer=self.trainer,
            reporter=self.reporter,
            run_dir=run_dir,
            shape=ModelShape.of(folder),
            resume=resume,
            verification=verification or Verification(),
            timeouts=timeouts,
            num_lost_engines=num_lost_engines,
        )
        self.controller = Controller(attempt)

    def run(self) -> Outcome:
        return asyncio.run(asyncio.wait_for(self.controller.run(), 60))


def change(recipe: Recipe, **overrides: Any) -> Recipe:
    return apply_overrides(recipe, {key.replace("__", "."): value for key, value in overrides.items()})


# Those that differ in code and not in numbers alone; the others in the long form.
UNLIKE = {
    "deepseek-grpo",
    "grpo-value",
    "loo-8op",
    "loo-dapo",
    "magistral",
    "minimax",
    "scalerl",
    "scalerl-math-code",
}
TINY = {name.removeprefix("tiny/") for name in recipe_names() if name.startswith("tiny/")}


@pytest.mark.parametrize(
    "name",
    [
        f"tiny/{name}" if name in UNLIKE else pytest.param(f"tiny/{name}", marks=pytest.mark.deep)
        for name in sorted(TINY)
    ],
)
def test_every_tiny_recipe_trains_ten_steps(name: str, schooled_model: Path, tmp_path: Path) -> None:
    """As committed, with its own batch and lengths; only network, problems and evaluations are smaller."""
    recipe = apply_overrides(
        load_recipe(name),
        {
            "model": str(schooled_model),
            "engine.type": "transformers",
            "task.options": smaller(load_recipe(name).task.options),
            "budget.device_hours": 10.0,
            "budget.max_steps": 10,
            "eval.every_steps": 10,
            "eval.prompts": 4,
            "eval.k": 2,
        },
    )
    setup = Setup(recipe, tmp_path)

    outcome = setup.run()

    assert (outcome.state, outcome.step) == ("succeeded", 10)
    norms = setup.reporter.series("train/grad_norm")
    assert list(norms) == list(range(1, 11))
    assert sum(norm > 0 for norm in norms.values()) >= 8  # batches that taught something
    assert list(setup.reporter.series("eval/pass_rate")) == [0, 10]


def smaller(options: dict[str, Any]) -> dict[str, Any]:
    """The task with one-digit sums: a model that guesses is right now and then, so that groups teach."""
    if "parts" in options:
        sums = [part for part in options["parts"] if part["task"] == "arithmetic"]
        more = [part | {"name": "more", "weight": 2} for part in sums]
        return {"parts": [part | {"options": smaller({})} for part in sums + more]}
    return {"min_digits": 1, "max_digits": 1, "train_prompts": 60, "held_out_pool": 16}


@pytest.mark.parametrize(
    ("mode", "k", "bound"), [("pipeline", 0, 0), ("pipeline", 2, 2), ("ppo", 1, 0), ("ppo", 2, 1)]
)
def test_run_trains_evaluates_and_keeps_the_bound(
    toy_recipe: Recipe, tmp_path: Path, mode: str, k: int, bound: int
) -> None:
    setup = Setup(change(toy_recipe, offpolicy__mode=mode, offpolicy__k=k, budget__max_steps=4), tmp_path)

    outcome = setup.run()

    assert (outcome.state, outcome.reason, outcome.step) == ("succeeded", "made 4 steps", 4)
    assert list(setup.reporter.series("eval/pass_rate")) == [0, 1, 2, 3, 4]
    staleness = setup.reporter.series("train/staleness_max")
    assert list(staleness) == [1, 2, 3, 4]
    assert max(staleness.values()) <= bound
    oldest = setup.reporter.series("train/version_oldest")
    newest = setup.reporter.series("train/version_newest")
    for step in staleness:  # trained at version step - 1
        assert step - 1 - bound <= oldest[step] <= newest[step] <= step - 1


def test_short_queue_keeps_samples_fresher_than_the_bound(toy_recipe: Recipe, tmp_path: Path) -> None:
    recipe = change(toy_recipe, offpolicy__k=8, rollout__max_untrained_prompts=2, budget__max_steps=6)
    setup = Setup(recipe, tmp_path)
    setup.run()

    assert max(setup.reporter.series("train/staleness_max").values()) <= 1


def test_records_are_what_the_server_takes(toy_recipe: Recipe, tmp_path: Path) -> None:
    from training.records import Record

    setup = Setup(toy_recipe, tmp_path)
    setup.run()

    for seq, record in enumerate(setup.reporter.records):
        Record.model_validate({"attempt": 1, "seq": seq, "time": "2026-01-01T00:00:00+00:00", **record})
    first, last = setup.reporter.records[0], setup.reporter.records[-1]
    assert first["compute"] == {"device_hours": 0.0, "flops": 0.0, "tokens": 0}
    assert last["compute"]["device_hours"] > 0 and last["compute"]["tokens"] > 0
    names = set().union(*(record["metrics"] for record in setup.reporter.records))
    assert names >= {
        "eval/pass_rate_stderr",
        "train/reward",
        "train/entropy",
        "train/grad_norm",
        "train/truncation_rate",
        "train/verifier_failure_rate",
        "eval/verifier_failure_rate",
        "train/ratio_max",
        "train/ratio_min",
        "train/ratio_clip_fraction",
        "train/mismatch_logp_mean",
        "train/mismatch_logp_max",
        "train/kl",
        "train/response_length",
        "train/effective_batch",
        "train/staleness_mean",
        "perf/tokens_per_second",
        "perf/generator_idle",
        "perf/trainer_idle",
    }


def test_generator_follows_the_trainer(toy_recipe: Recipe, tmp_path: Path) -> None:
    recipe = change(toy_recipe, optimizer__lr=0.05, optimizer__warmup_steps=0, precision__generator="float32")
    setup = Setup(recipe, tmp_path)
    setup.run()

    mismatch = setup.reporter.series("train/mismatch_logp_max")
    assert max(mismatch.values()) < 1e-3  # although each step moved the weights by 0.05


def test_synchronous_training_is_on_policy(toy_recipe: Recipe, tmp_path: Path) -> None:
    setup = Setup(change(toy_recipe, offpolicy__k=0, precision__generator="float32"), tmp_path)
    setup.run()

    assert max(setup.reporter.series("train/ratio_max").values()) == pytest.approx(1, abs=1e-3)
    fresh = setup.reporter.series("train/mismatch_fresh_logp_max")
    assert list(fresh) == [1, 2, 3] and 0 < max(fresh.values()) < 1e-3
    assert min(setup.reporter.series("train/ratio_min").values()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_start_records_how_far_generator_and_trainer_agree(
    toy_recipe: Recipe, tmp_path: Path, temperature: float
) -> None:
    recipe = change(toy_recipe, eval__temperature=temperature, budget__max_steps=1)
    setup = Setup(recipe, tmp_path)
    setup.run()

    assert 0 <= setup.reporter.series("train/mismatch_logp_mean")[0] < 0.05


def test_budget_of_device_hours_ends_the_run(toy_recipe: Recipe, tmp_path: Path) -> None:
    recipe = change(toy_recipe, budget__max_steps=None, budget__device_hours=1e-5, eval__every_steps=50)

    outcome = Setup(recipe, tmp_path).run()

    assert outcome.reason == "used 1e-05 device-hours"
    assert outcome.usage.device_hours >= 1e-5
    assert outcome.pass_rate is not None


def test_lengths_grow_with_the_ramp(toy_recipe: Recipe, tmp_path: Path) -> None:
    recipe = change(
        toy_recipe,
        curriculum__mode="linear_ramp",
        curriculum__ramp_start=0.25,
        curriculum__ramp_steps=4,
        curriculum__ramp_length=True,
        length__mode="none",
        offpolicy__k=0,
        budget__max_steps=6,
        eval__every_steps=100,
    )
    engine = HashGenerator()
    Setup(recipe, tmp_path, engine=engine, trainer=HashTrainer()).run()

    rollout = recipe.rollout
    thinking = [request.max_tokens - rollout.max_answer_tokens for request in engine.requests]
    assert thinking[0] == thinking[-1] == rollout.max_thinking_tokens  # evaluations have all the room
    num_evaluated = recipe.eval.prompts * recipe.eval.k
    grown = thinking[num_evaluated:-num_evaluated]
    assert grown[0] == round(0.25 * rollout.max_thinking_tokens)
    assert grown == sorted(grown) and grown[-1] == rollout.max_thinking_tokens
