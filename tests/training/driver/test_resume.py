"""Stops, crashes and resumes of whole runs, with a generator and a trainer that depend on all that they are given."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.deep import examples
from tests.training.conftest import MemoryReporter
from tests.training.driver.test_controller import Setup, change
from tests.training.fakes import HashGenerator, HashTrainer, Lengths
from training.checkpoints import CheckpointError, newest_checkpoint
from training.driver.curriculum import PromptSampler
from training.recipe import Recipe
from training.rollouts import Completion, Request
from training.waiting import PartFailed, Timeouts

STEPS = 9
MODES = {
    "synchronous": {"offpolicy__k": 0},
    "blocks": {"offpolicy__mode": "ppo", "offpolicy__k": 3},
    "pipeline": {"offpolicy__k": 2},
}


@pytest.fixture
def recipe(toy_recipe: Recipe) -> Recipe:
    """Nine steps of two prompts: more than one epoch of the ten training prompts."""
    return change(
        toy_recipe,
        task__options={"min_digits": 1, "max_digits": 1, "train_prompts": 10, "held_out_pool": 16},
        curriculum__mode="uniform",
        budget__max_steps=STEPS,
        eval__every_steps=3,
        checkpoint__every_steps=2,
    )


class Attempt:
    """One launch: goes on from the newest checkpoint, and ends by itself or at a token of its generator."""

    def __init__(
        self, recipe: Recipe, run_dir: Path, *, pace: int = 0, at: int = -1, by: str = "stop"
    ) -> None:
        self._at, self._by = at, by
        self.resumed_from = newest_checkpoint(run_dir / "checkpoints")
        self.generator, self.trainer = HashGenerator(pace, self._on_token), HashTrainer()
        self.setup = Setup(
            recipe,
            run_dir,
            self.resumed_from,
            task=Lengths.model_validate(recipe.task.options),
            engine=self.generator,
            trainer=self.trainer,
        )

    def _on_token(self, count: int) -> None:
        if count == self._at and self._by == "crash":
            raise RuntimeError("out of memory")
        if count == self._at:
            self.setup.controller.stop()

    def run(self) -> None:
        try:
            self.setup.run()
        except PartFailed as error:
            assert str(error) == "the generator failed: out of memory"


class History:
    """What counts of several attempts: each up to the checkpoint that the next one went on from."""

    def __init__(self, attempts: list[Attempt]) -> None:
        self.trained: dict[int, list[tuple[int, ...]]] = {}
        self.tokens: dict[int, tuple[int, int]] = {}
        self.metrics: dict[tuple[int, str], float] = {}
        self.compute: list[dict[str, float]] = []
        for attempt in attempts:
            start = attempt.resumed_from.step if attempt.resumed_from else -1
            self.trained = {s: p for s, p in self.trained.items() if s <= start} | attempt.trainer.trained
            self.tokens = {s: n for s, n in self.tokens.items() if s <= start} | attempt.trainer.tokens
            self.metrics = {k: v for k, v in self.metrics.items() if k[0] <= start}
            self.metrics |= timeless(attempt.setup.reporter)
        self.final_state = attempts[-1].trainer.state
        self.usage = attempts[-1].setup.controller._shared.meter.usage()


def timeless(reporter: MemoryReporter) -> dict[tuple[int, str], float]:
    """(step, name) -> value of all that does not measure time."""
    found: dict[tuple[int, str], float] = {}
    for record in reporter.records:
        values = record["metrics"] | {f"compute/{k}": v for k, v in record["compute"].items()}
        for name, value in values.items():
            kind = "eval" if "eval/pass_rate" in values else "train"
            if not name.startswith(("perf/", "data/")) and name != "compute/device_hours":
                found[record["step"], f"{kind}: {name}"] = value
    return found


def history(recipe: Recipe, run_dir: Path, ends: list[tuple[str, int]], paces: list[int]) -> History:
    """Of a run whose attempts end so, and a last one that ends by itself."""
    attempts = []
    for pace, (by, at) in zip(paces, [*ends, ("", -1)], strict=True):
        attempts.append(Attempt(recipe, run_dir, pace=pace, at=at, by=by))
        attempts[-1].run()
    return History(attempts)


ENDS = st.lists(st.tuples(st.sampled_from(["stop", "crash"]), st.integers(40, 900)), max_size=3)
FEW = settings(
    max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("mode", ["synchronous", "blocks"])
@pytest.mark.parametrize("zero_variance", ["keep", "refill"])
@FEW
@given(ends=ENDS, pace=st.integers(0, 1000))
def test_where_phases_alternate_a_resumed_run_is_the_same_run(
    recipe: Recipe, mode: str, zero_variance: str, ends: list[tuple[str, int]], pace: int
) -> None:
    recipe = change(recipe, **MODES[mode], filter__zero_variance=zero_variance)
    with TemporaryDirectory() as folder:
        whole = history(recipe, Path(folder) / "whole", [], [0])
        paces = list(range(pace, pace + len(ends) + 1))
        parts = history(recipe, Path(folder) / "parts", ends, paces)

    assert parts.metrics == whole.metrics
    assert parts.final_state == whole.final_state
    assert list(whole.trained) == list(range(1, STEPS + 1))
    assert {name for step, name in whole.metrics} >= {"train: train/loss", "eval: eval/pass_rate"}


@FEW
@given(ends=ENDS, pace=st.integers(0, 1000), depth=st.integers(1, 4))
def test_pipeline_loses_no_prompt_and_repeats_none(
    recipe: Recipe, ends: list[tuple[str, int]], pace: int, depth: int
) -> None:
    recipe = change(recipe, offpolicy__k=depth)
    with TemporaryDirectory() as folder:
        parts = history(recipe, Path(folder), ends, list(range(pace, pace + len(ends) + 1)))
        last = newest_checkpoint(Path(folder) / "checkpoints")

    assert last is not None
    trained = [prompt for step in sorted(parts.trained) for prompt in parts.trained[step]]
    waiting = prompts_of(recipe, [group["prompt"] for group in last.driver["groups"]])
    assert sorted(trained + waiting) == sorted(expected_prompts(recipe, len(trained) + len(waiting)))
    finished = last.driver["groups"][: last.driver["num_finished"]]
    tokens_waiting = sum(sample["tokens"] for group in finished for sample in group["samples"])
    assert last.driver["usage"]["tokens"] == tokens_waiting + sum(map(sum, parts.tokens.values()))
    assert sorted(parts.trained) == list(range(1, STEPS + 1))
    steps = {step for step, name in parts.metrics if name == "train: train/loss"}
    evaluated = {step for step, name in parts.metrics if name == "eval: eval/pass_rate"}
    assert (steps, evaluated) == (set(range(1, STEPS + 1)), {0, 3, 6, 9})
    staleness = [value for (_, name), value in parts.metrics.items() if name.endswith("staleness_max")]
    assert max(staleness) <= depth
    tokens = [parts.metrics[step, "train: compute/tokens"] for step in range(1, STEPS + 1)]
    assert tokens == sorted(tokens) and len(set(tokens)) == STEPS  # the curve goes on


def expected_prompts(recipe: Recipe, count: int) -> list[tuple[int, ...]]:
    """The sampler's order: ten prompts an epoch, each once."""
    task = Lengths.model_validate(recipe.task.options)
    sampler = PromptSampler(task.training_prompts(recipe.seed), recipe.curriculum, recipe.seed)
    ids = [prompt.id for prompt in (sampler.next() for _ in range(count)) if prompt]
    assert len(set(ids[:10])) == 10
    return prompts_of(recipe, ids)


def prompts_of(recipe: Recipe, ids: list[str]) -> list[tuple[int, ...]]:
    """Their tokens."""
    task = Lengths.model_validate(recipe.task.options)
    codec = Setup(recipe, Path(), engine=HashGenerator(), trainer=HashTrainer()).controller._rollouts
    found = {prompt.id: tuple(codec.prompt_tokens(prompt)) for prompt in task.training_prompts(recipe.seed)}
    return [found[prompt_id] for prompt_id in ids]


class Slow(HashGenerator):
    """Its responses never end by themselves once `stuck` tokens have been made."""

    def __init__(self, stuck: int, on_stuck: Any) -> None:
        super().__init__()
        self._stuck, self._on_stuck = stuck, on_stuck

    async def _complete(self, request: Request, interrupted: asyncio.Event) -> Completion:
        if self.version < 1 or request.max_tokens <= self._stuck:
            return await super()._complete(request, interrupted)
        made = await super()._complete(Request(request.tokens, self._stuck, request.seed), interrupted)
        self._on_stuck()
        await interrupted.wait()
        return Completion(made.tokens, made.logp, False, made.versions, interrupted=True)


def test_partial_responses_are_gone_on_with_after_a_stop(recipe: Recipe, tmp_path: Path) -> None:
    recipe = change(recipe, offpolicy__k=1, length__mode="none", eval__every_steps=100)
    engine = Slow(3, lambda: first.controller.stop())
    first = Setup(recipe, tmp_path, engine=engine, trainer=HashTrainer())
    stopped = first.run()
    begun = {request.seed: request for request in engine.requests if request.position == 0}
    second = Attempt(recipe, tmp_path)
    second.run()

    continued = [request for request in second.generator.requests if request.position]
    assert stopped.state == "cancelled" and continued
    for request in continued:
        origin = begun[request.seed]
        assert request.tokens[: len(origin.tokens)] == origin.tokens
        assert request.position == len(request.tokens) - len(origin.tokens) <= 3
        assert request.max_tokens == origin.max_tokens - request.position
    assert sorted(second.trainer.trained)[-1] == STEPS


def test_generator_that_does_not_end_its_calls_costs_the_partial_groups_alone(
    recipe: Recipe, tmp_path: Path
) -> None:
    class Deaf(Slow):
        async def interrupt(self) -> None:
            pass

    recipe = change(recipe, offpolicy__k=1, eval__every_steps=100)
    setup = Setup(
        recipe,
        tmp_path,
        engine=Deaf(3, lambda: setup.controller.stop()),
        trainer=HashTrainer(),
        timeouts=Timeouts(closing=0.05),
    )
    stopped = setup.run()
    second = Attempt(recipe, tmp_path)
    second.run()

    assert stopped.state == "cancelled"
    assert not any(
        request.position for request in second.generator.requests if request.position not in LIMITS
    )
    assert second.setup.controller.step == STEPS


LIMITS = range(10, 14)  # positions after an interruption of the thinking, not of the run


def test_stop_during_an_evaluation_is_followed_by_that_evaluation(recipe: Recipe, tmp_path: Path) -> None:
    class StopsAtStep3(HashGenerator):
        async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
            if len(requests) == recipe.eval.prompts * recipe.eval.k and self.version == 3:
                first.controller.stop()
                await asyncio.Event().wait()
            return await super().generate(requests, temperature)

    first = Setup(recipe, tmp_path, engine=StopsAtStep3(), trainer=HashTrainer())
    stopped = first.run()
    second = Attempt(recipe, tmp_path)
    second.run()

    assert (stopped.state, stopped.step) == ("cancelled", 3)
    assert list(first.reporter.series("eval/pass_rate")) == [0]
    assert list(second.setup.reporter.series("eval/pass_rate")) == [3, 6, 9]


def test_checkpoint_of_another_recipe_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    Attempt(recipe, tmp_path).run()

    longer = change(
        recipe, budget__max_steps=20, eval__prompts=2, checkpoint__keep=1, resources__trainer_cpus=2
    )
    assert Attempt(longer, tmp_path).setup.controller.step == STEPS
    with pytest.raises(
        CheckpointError,
        match=r"is of another recipe: optimizer.lr was 8e-05 and is 0.1; rollout.temperature was 1.0 and is 0.9",
    ):
        Attempt(change(recipe, optimizer__lr=0.1, rollout__temperature=0.9), tmp_path)


def test_checkpoint_from_before_a_field_existed_is_of_its_default(recipe: Recipe, tmp_path: Path) -> None:
    Attempt(recipe, tmp_path).run()
    checkpoint = newest_checkpoint(tmp_path / "checkpoints")
    assert checkpoint is not None
    del checkpoint.driver["recipe"]["curriculum"]["pass_rate_of"]

    checkpoint.refuse_unless_of(recipe)
    with pytest.raises(
        CheckpointError, match="curriculum.pass_rate_of was 'all_visits' and is 'last_visit'. A resume"
    ):
        checkpoint.refuse_unless_of(change(recipe, curriculum__pass_rate_of="last_visit"))


def test_checkpoint_of_another_model_is_refused(recipe: Recipe, schooled_model: Path, tmp_path: Path) -> None:
    Attempt(recipe, tmp_path).run()

    with pytest.raises(CheckpointError, match="model was 'toy' and is 'schooled'"):
        Attempt(change(recipe, model=str(schooled_model)), tmp_path)


@pytest.mark.parametrize("name", ["samples.npz", "driver.json"])
def test_damaged_file_is_named(recipe: Recipe, tmp_path: Path, name: str) -> None:
    Attempt(change(recipe, **MODES["pipeline"]), tmp_path).run()
    checkpoint = newest_checkpoint(tmp_path / "checkpoints")
    assert checkpoint is not None
    file = checkpoint.folder / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    with pytest.raises(CheckpointError, match=rf"{name} is damaged .* the checkpoint before it is taken"):
        Attempt(change(recipe, **MODES["pipeline"]), tmp_path)


def test_prompt_that_is_gone_is_named(recipe: Recipe, tmp_path: Path) -> None:
    recipe = change(recipe, **MODES["pipeline"])
    Attempt(recipe, tmp_path).run()
    other = change(recipe, task__options=recipe.task.options | {"min_digits": 2, "max_digits": 2})
    checkpoint = newest_checkpoint(tmp_path / "checkpoints")
    assert checkpoint is not None
    checkpoint.driver["recipe"]["task"]["options"] = other.task.options

    with pytest.raises(CheckpointError, match=r"the task has no prompt '\d\+\d'"):
        Setup(other, tmp_path, checkpoint, engine=HashGenerator(), trainer=HashTrainer())
