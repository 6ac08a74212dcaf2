"""Real vLLM, one engine for all tests of this file; every await happens in the engine's own event loop."""

import asyncio
import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from tests.training.conftest import LocalTrainer, MemoryReporter
from tests.training.test_rollouts import check_length_control
from training.codec import Codec
from training.driver import Controller
from training.flops import ModelShape
from training.recipe import Recipe, apply_overrides, load_recipe
from training.rollouts import Completion, Request, Rollouts
from training.tasks import make_task
from training.tasks.arithmetic import make_prompt

pytestmark = pytest.mark.vllm
T = TypeVar("T")


class Engine:
    """A VllmEngine and the event loop that it lives in."""

    def __init__(self, recipe: Recipe) -> None:
        from training.engines import make_engine

        self.recipe = recipe
        self.folder = Path(recipe.model)
        self._runner = asyncio.Runner()
        self.engine = self.run(self._make(make_engine))

    async def _make(self, make_engine: Any) -> Any:
        return make_engine(self.recipe.model_dump(mode="json"), str(self.folder))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def close(self) -> None:
        self.engine.shutdown()
        self._runner.close()


@pytest.fixture(scope="session")
def vllm(toy_model: Path) -> Iterator[Engine]:
    """Starts vLLM once a session: some 20 s."""
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "VLLM_ENABLE_V1_MULTIPROCESSING")}
    recipe = apply_overrides(
        load_recipe("tiny/scalerl"),
        {
            "model": str(toy_model),
            "rollout.prompts_per_step": 2,
            "rollout.generations_per_prompt": 4,
            "rollout.max_thinking_tokens": 40,
            "filter.zero_variance": "keep",
            "optimizer.lr": 0.02,
            "optimizer.warmup_steps": 0,
            "budget.max_steps": 3,
            "eval.every_steps": 1,
            "eval.prompts": 8,
            "eval.k": 2,
            "engine.kv_cache_mib": 64,
        },
    )
    engine = Engine(recipe)
    yield engine
    engine.close()
    for name, value in before.items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def difference(trainer: LocalTrainer, prompt: list[int], completion: Completion) -> float:
    """Largest |log-probability here - there| of a completion's tokens."""
    import torch

    tokens = torch.tensor([prompt + completion.tokens])
    logp, _ = trainer.trainer._logp(tokens)
    theirs = np.array(completion.logp)
    return float(np.abs(logp[0, len(prompt) - 1 :].detach().numpy() - theirs).max())


def test_log_probabilities_are_the_trainers(vllm: Engine) -> None:
    trainer = LocalTrainer(vllm.recipe, vllm.folder)
    vllm.run(vllm.engine.update_weights(trainer.weights(), 0))
    prompt = Codec(vllm.folder).encode("37+58=<think>")

    completions = vllm.run(vllm.engine.generate([Request(prompt, 20)] * 8, 1.0))

    assert len({tuple(completion.tokens) for completion in completions}) > 1
    assert max(difference(trainer, prompt, completion) for completion in completions) < 0.05


def test_weights_change_in_flight_and_no_request_is_lost(vllm: Engine) -> None:
    """Requests that are running when new weights arrive finish, with tokens of both versions."""
    import torch

    old = LocalTrainer(vllm.recipe, vllm.folder)
    new = LocalTrainer(vllm.recipe, vllm.folder)
    with torch.no_grad():
        new.trainer._model.get_output_embeddings().weight.mul_(40)  # far sharper than before
    prompt = Codec(vllm.folder).encode("37+58=<think>")
    vllm.run(vllm.engine.update_weights(old.weights(), 10))

    async def update_while_generating() -> list[Completion]:
        running = asyncio.ensure_future(vllm.engine.generate([Request(prompt, 40) for _ in range(128)], 1.0))
        await asyncio.sleep(0.05)
        await vllm.engine.update_weights(new.weights(), 11)
        return await running

    completions = vllm.run(update_while_generating())
    after = vllm.run(vllm.engine.generate([Request(prompt, 20)] * 8, 1.0))

    assert len(completions) == 128 and all(completion.tokens for completion in completions)
    crossed = [c for c in completions if (c.versions[0], c.versions[-1]) == (10, 11)]
    assert crossed, "the update came before or after all of the generation"
    assert all(set(completion.versions) == {11} for completion in after)
    assert max(difference(new, prompt, completion) for completion in after) < 0.5
    assert min(difference(old, prompt, completion) for completion in after) > 0.5


@pytest.mark.parametrize("mode", ["interruption", "none"])
def test_length_control(vllm: Engine, mode: str) -> None:
    recipe, codec = apply_overrides(vllm.recipe, {"length.mode": mode}), Codec(vllm.folder)
    vllm.run(vllm.engine.update_weights(LocalTrainer(vllm.recipe, vllm.folder).weights(), 0))
    rollouts = Rollouts(recipe, make_task("arithmetic"), codec, vllm.engine)

    (group,) = vllm.run(rollouts.groups([make_prompt(37, 58)], 64, 1.0))

    check_length_control(recipe, group, codec.encode(recipe.length.phrase))
    assert any(sample.interrupted for sample in group.samples) is (mode == "interruption")


def test_driver_trains_with_vllm(vllm: Engine, tmp_path: Path) -> None:
    reporter = MemoryReporter()
    trainer = LocalTrainer(vllm.recipe, vllm.folder)
    vllm.run(vllm.engine.update_weights(trainer.weights(), 0))
    controller = Controller(
        vllm.recipe,
        task=make_task("arithmetic", vllm.recipe.task.options),
        codec=Codec(vllm.folder),
        generator=vllm.engine,
        trainer=trainer,
        reporter=reporter,
        run_dir=tmp_path,
        shape=ModelShape.of(vllm.folder),
    )

    outcome = vllm.run(controller.run())

    assert (outcome.state, outcome.step) == ("succeeded", 3)
    mismatch = reporter.series("train/mismatch_logp_mean")
    assert list(mismatch) == [0, 1, 2, 3]
    assert max(mismatch.values()) < 0.05  # the engine's weights are the trainer's at every evaluation
