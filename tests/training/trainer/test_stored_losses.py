"""Losses and gradient norms that a refactoring must reproduce: stored from the trainer on fixed batches."""

import json
from pathlib import Path

import pytest

from tests.training.conftest import cut_down
from tests.training.trainer.test_trainer import a_batch
from training.recipe import apply_overrides, load_recipe
from training.trainer.trainer import Trainer

STORED = Path(__file__).with_name("stored_losses.json")
RECIPES = ["tiny/scalerl", "tiny/grpo-value", "tiny/qwen25-dapo", "tiny/minimax", "tiny/deepseek-grpo"]


def losses(name: str, model: Path) -> list[dict[str, float]]:
    """Of five updates on different batches, with a learning rate that makes each matter for the next."""
    settings = {"optimizer.lr": 0.01, "optimizer.warmup_steps": 2, "precision.generator": "float32"}
    recipe = apply_overrides(
        cut_down(load_recipe(name), model), settings
    )  # as stored: the head is not rounded
    trainer = Trainer(recipe.model_dump(mode="json"), str(model))
    results = [trainer.train_step(a_batch(seed)) for seed in range(5)]
    return [{key: result.metrics[key] for key in ("loss", "grad_norm", "entropy")} for result in results]


@pytest.mark.parametrize("name", RECIPES)
def test_losses_are_the_stored_ones(name: str, toy_model: Path) -> None:
    stored = json.loads(STORED.read_text())[name]

    for now, then in zip(losses(name, toy_model), stored, strict=True):
        assert now == pytest.approx(then, rel=1e-4, abs=1e-7)
