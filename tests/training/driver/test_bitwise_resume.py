"""Synchronous training with the real trainer: a resumed run is, bit for bit, the run that never ended."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.conftest import LocalTrainer, cut_down
from tests.training.driver.test_controller import Setup, change
from tests.training.driver.test_resume import timeless
from training.checkpoints import newest_checkpoint
from training.recipe import Recipe, load_recipe
from training.rollouts import Completion, Request, seed_of
from training.trainer.network import head_logits, load_network
from training.transfer import Weights, unpack
from training.waiting import PartFailed

STEPS = 6


class SeededEngine:
    """Samples one request after the other, each token from its seed and position: slow, and the same in any company."""

    def __init__(self, folder: Path) -> None:
        self._model: Any = load_network(folder, "cpu").eval()
        self._eos, self.version, self.num_calls = 1, 0, 0
        self.at_call: dict[int, Any] = {}

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        self.num_calls += 1
        if self.num_calls in self.at_call:
            self.at_call[self.num_calls]()
        return [await self._complete(request, temperature) for request in requests]

    async def _complete(self, request: Request, temperature: float) -> Completion:
        made = Completion([], [], False, [])
        while len(made.tokens) < request.max_tokens and self._eos not in made.tokens:
            await asyncio.sleep(0)
            token, logp = self._next(request, made.tokens, temperature)
            made.tokens.append(token)
            made.logp.append(logp)
            made.versions.append(self.version)
        return Completion(made.tokens, made.logp, self._eos in made.tokens, made.versions)

    @torch.no_grad()
    def _next(self, request: Request, made: list[int], temperature: float) -> tuple[int, float]:
        tokens = torch.tensor([request.tokens + made])
        hidden = self._model.get_decoder()(input_ids=tokens).last_hidden_state[:, -1]
        logp = (head_logits(self._model, hidden, torch.float32) / temperature).log_softmax(dim=-1)[0]
        assert request.seed is not None
        generator = torch.Generator().manual_seed(seed_of(request.seed, request.position + len(made)))
        token = int(torch.multinomial(logp.exp(), 1, generator=generator))
        return token, float(logp[token])

    async def update_weights(self, weights: Weights, version: int) -> None:
        self._model.load_state_dict(dict(unpack(weights.buckets)), strict=False)
        self.version = version

    async def interrupt(self) -> None:
        pass


@pytest.fixture(scope="module")
def recipe(schooled_model: Path) -> Recipe:
    """Six synchronous steps that change the weights, with everything that has a state: moments, schedule, history."""
    return change(
        cut_down(load_recipe("tiny/scalerl"), schooled_model),
        task__options={"min_digits": 1, "max_digits": 1, "train_prompts": 40, "held_out_pool": 16},
        offpolicy__k=0,
        rollout__generations_per_prompt=16,
        advantage__norm="global",
        optimizer__lr=3e-3,
        optimizer__schedule="cosine",
        optimizer__warmup_steps=2,
        optimizer__decay_steps=20,
        precision__generator="float32",
        budget__max_steps=STEPS,
        budget__device_hours=10.0,
        eval__every_steps=2,
        checkpoint__every_steps=2,
    )


def attempt(recipe: Recipe, run_dir: Path) -> Setup:
    """Ready to run, from the newest checkpoint that there is."""
    folder = Path(recipe.model)
    resume = newest_checkpoint(run_dir / "checkpoints")
    return Setup(recipe, run_dir, resume, engine=SeededEngine(folder), trainer=LocalTrainer(recipe, folder))


@pytest.fixture(scope="module")
def whole(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """The run that never ended."""
    setup = attempt(recipe, tmp_path_factory.mktemp("whole"))
    setup.run()
    return setup


def weights(setup: Setup) -> dict[str, Any]:
    return {name: tensor.clone() for name, tensor in setup.trainer.trainer.named_weights()}


def die() -> None:
    raise RuntimeError("killed")


@pytest.mark.parametrize(
    ("end", "call"),  # in the third step and in the fifth; the last call is an evaluation
    [
        ("stop", 8),
        pytest.param("crash", 14, marks=pytest.mark.deep),
        pytest.param("stop", 14, marks=pytest.mark.deep),
        pytest.param("crash", 8, marks=pytest.mark.deep),
    ],
)
def test_resumed_run_is_the_same_run(
    recipe: Recipe, whole: Setup, tmp_path: Path, end: str, call: int
) -> None:
    first = attempt(recipe, tmp_path / "parts")
    first.engine.at_call[call] = first.controller.stop if end == "stop" else die
    try:
        first.run()
    except PartFailed:
        assert end == "crash"
    second = attempt(recipe, tmp_path / "parts")
    second.run()

    resumed_from = newest_step_before(second)
    assert 0 <= resumed_from < STEPS
    counted = {k: v for k, v in timeless(first.reporter).items() if k[0] <= resumed_from}
    assert counted | timeless(second.reporter) == timeless(whole.reporter)
    assert (
        sum(v != 0 for (_, name), v in timeless(whole.reporter).items() if name == "train: train/loss") >= 3
    )
    expected, found = weights(whole), weights(second)
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def newest_step_before(setup: Setup) -> int:
    """The step that an attempt began at."""
    return min(setup.reporter.series("train/reward")) - 1
