"""A model of a few thousand parameters, made by the tests themselves."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headroom import Finished
from tests.training.stores import environment, everywhere, s3, store  # noqa: F401 - fixtures
from training.lessons import Course, Lessons
from training.recipe import Recipe, apply_overrides, load_recipe

# Of a model that answers one-digit sums in the right form, mostly with a guess.
ONE_DIGIT = Lessons(
    courses=(Course("arithmetic", (1,)),), guesses=0.7, mistakes=0.0,
    hidden=32, layers=1, heads=1, mlp=64, context=96, steps=150, batch=64, lr=1e-2,
)  # fmt: skip

os.environ.setdefault("HEADROOM_OVERSUBSCRIBE", "1")  # several engines and ranks on few cores


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an untaught Qwen2-shaped model with the default task's vocabulary."""
    import torch

    from training.pretrain import new_model, save

    torch.manual_seed(0)
    lessons = Lessons(hidden=32, layers=1, heads=1, mlp=32, context=96)
    folder = tmp_path_factory.mktemp("home") / "models" / "toy"
    save(new_model(lessons), lessons, folder)
    return folder


@pytest.fixture(scope="session")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an untaught mixture of experts, whose files have a tensor for each of them."""
    import torch
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    from training.pretrain import VOCABULARY, save

    torch.manual_seed(0)
    lessons = Lessons(hidden=32, layers=2, heads=2, mlp=48, context=96)
    config = Qwen3MoeConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=lessons.hidden,
        intermediate_size=lessons.mlp,
        moe_intermediate_size=24,
        num_hidden_layers=lessons.layers,
        num_attention_heads=lessons.heads,
        num_key_value_heads=1,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=lessons.context,
    )
    folder = tmp_path_factory.mktemp("home") / "models" / "mixture"
    save(Qwen3MoeForCausalLM(config), lessons, folder)
    return folder


@pytest.fixture(scope="session")
def schooled_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of as small a model that answers one-digit sums in the right form, mostly with a guess."""
    from training.pretrain import pretrain

    folder = tmp_path_factory.mktemp("home") / "models" / "schooled"
    pretrain(folder, ONE_DIGIT)
    return folder


@pytest.fixture
def toy_recipe(toy_model: Path) -> Recipe:
    """tiny/scalerl, cut down."""
    return cut_down(load_recipe("tiny/scalerl"), toy_model)


def cut_down(recipe: Recipe, model: Path) -> Recipe:
    """The recipe with 2 prompts x 4 generations of 20 tokens, transformers engine, 3 steps, every one evaluated."""
    return apply_overrides(
        recipe,
        {
            "model": str(model),
            "engine.type": "transformers",
            "rollout.prompts_per_step": 2,
            "rollout.generations_per_prompt": 4,
            "rollout.max_thinking_tokens": 12,
            "rollout.max_answer_tokens": 8,
            "length.interrupt_low": 10,
            "length.interrupt_high": 12,
            "length.penalty_max_tokens": 18,
            "length.penalty_cache_tokens": 4,
            "filter.zero_variance": "keep",
            "budget.max_steps": 3,
            "eval.every_steps": 1,
            "eval.prompts": 4,
            "eval.k": 2,
            "checkpoint.every_steps": 2,
        },
    )


class LocalTrainer:
    """A trainer in this process behind the driver's seam; calls run one after the other."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        from training.trainer.trainer import Trainer

        self.trainer = Trainer(recipe.model_dump(mode="json"), str(folder))

    def __getattr__(self, method: str) -> Any:
        async def call(*args: Any) -> Any:
            await asyncio.sleep(0)
            return getattr(self.trainer, method)(*args)

        return call

    def weights(self) -> bytes:
        return self.trainer.weights()


class MemoryReporter:
    """Keeps what the driver reports."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.samples: dict[tuple[str, int], list[dict[str, Any]]] = {}

    def log_samples(self, step: int, rows: Sequence[Mapping[str, Any]], *, kind: str = "train") -> None:
        self.samples[kind, step] = [dict(row) for row in rows]

    def log(
        self, metrics: Mapping[str, float], *, step: int, compute: Mapping[str, float] | None = None
    ) -> None:
        self.records.append({"step": step, "compute": dict(compute or {}), "metrics": dict(metrics)})

    def log_system(self, figures: Mapping[str, float]) -> None:
        raise AssertionError("the driver's loops know nothing of machines")

    def finish(
        self,
        state: str = "succeeded",
        message: str = "",
        timeout: float = 10,
        *,
        infrastructure: bool = False,
    ) -> Finished:
        return Finished(sent=True)

    def series(self, metric: str) -> dict[int, float]:
        return {r["step"]: r["metrics"][metric] for r in self.records if metric in r["metrics"]}
