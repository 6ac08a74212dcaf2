"""A whole trainer on a CUDA device: its peak as traced, adapters, checkpoints. torch and transformers only."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.conftest import cut_down
from tests.training.trainer.test_trainer import a_batch, make_trainer
from training.pretrain import VOCABULARY, Lessons, new_model, save
from training.recipe import Recipe, apply_overrides, load_recipe
from training.trainer.batching import Batch
from training.trainer.memory_trace import trace_peak
from training.trainer.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
ON_GPU = {"resources__trainer_gpus": 1, "optimizer__warmup_steps": 0}
LENGTH = 8192


def long_rows(count: int) -> Batch:
    """Each of the longest length, every position of it trained."""
    rng = np.random.default_rng(0)
    columns = (count, LENGTH - 1)
    return Batch(
        tokens=rng.integers(4, len(VOCABULARY), (count, LENGTH)),
        lengths=np.full(count, LENGTH),
        behaviour_logp=np.full(columns, -2.5, np.float32),
        mask=np.ones(columns, bool),
        rewards=rng.choice([-1.0, 1.0], count).astype(np.float32),
        prompt_index=np.arange(count) // 2,
        fresh=np.zeros(columns, bool),
    )


def long_recipe(folder: Path, **settings: Any) -> Recipe:
    """One row a micro-batch, of a model of four layers that is made in the folder."""
    lessons = Lessons(hidden=1024, layers=4, heads=8, mlp=4096, context=LENGTH)
    save(new_model(lessons), lessons, folder)
    lengths = {"max_prompt_tokens": 64, "max_thinking_tokens": LENGTH - 128, "max_answer_tokens": 64}
    changes = {f"rollout.{name}": tokens for name, tokens in lengths.items()}
    changes |= {"trainer.micro_batch_tokens": LENGTH, "precision.trainer": "bfloat16"}
    changes |= {"resources.trainer_gpus": 1, "trainer.head_chunk_tokens": 1024, **settings}
    return apply_overrides(cut_down(load_recipe("tiny/scalerl"), folder), changes)


@pytest.mark.parametrize("is_recomputed", [False, True])
def test_the_traced_peak_is_the_real_one(tmp_path: Path, is_recomputed: bool) -> None:
    recipe = long_recipe(tmp_path / "m", **{"trainer.activation_checkpointing": is_recomputed})
    traced = trace_peak(recipe, tmp_path / "m" / "config.json")
    trainer = Trainer(recipe.model_dump(mode="json"), recipe.model)
    trainer.train_step(long_rows(2))  # what libraries take once
    torch.cuda.reset_peak_memory_stats()

    trainer.train_step(long_rows(2))

    assert torch.cuda.max_memory_allocated() == pytest.approx(traced, rel=0.1)


def test_adapters_are_trained_as_on_the_cpu(toy_recipe: Recipe, toy_model: Path) -> None:
    settings = {"trainer__lora_rank": 4, "loss__kl_coef": 0.1, "optimizer__lr": 1e-3}
    metrics = []
    for gpus in (0, 1):
        changed = settings | ON_GPU | {"resources__trainer_gpus": gpus}
        trainer = make_trainer(toy_recipe, toy_model, **changed)
        metrics.append([trainer.train_step(a_batch(seed)).metrics for seed in range(3)])

    for on_cpu, on_gpu in zip(*metrics, strict=True):
        assert on_gpu == pytest.approx(on_cpu, rel=1e-2, abs=1e-4)


@pytest.mark.parametrize("is_offloaded", [False, True])
def test_a_checkpoint_is_what_was_there_when_it_began(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path, is_offloaded: bool
) -> None:
    """It is written while training goes on."""
    settings = ON_GPU | {"optimizer__offload_moments": is_offloaded}
    straight, resumed = (make_trainer(toy_recipe, toy_model, **settings) for _ in range(2))
    straight.train_step(a_batch(0))
    straight.begin_save(str(tmp_path / "trainer"))
    after = straight.train_step(a_batch(1)).metrics
    straight.end_save()

    assert resumed.load(str(tmp_path / "trainer")) == 1
    assert resumed.train_step(a_batch(1)).metrics == pytest.approx(after, rel=1e-4, abs=1e-6)
