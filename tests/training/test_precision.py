"""FP32 heads, shown by numbers on a bfloat16 model, with both engines (arXiv 2510.13786, section 3.2)."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from training.codec import Codec
from training.driver.parity import mismatch
from training.pretrain import Lessons, new_model, save
from training.recipe import Recipe, apply_overrides, load_recipe
from training.rollouts import Completion, Group, Request, Sample
from training.tasks.arithmetic import make_prompt
from training.trainer.batching import Batch, make_batch
from training.trainer.trainer import Trainer

HEADS = ("bfloat16", "float32")
PROMPTS = 512  # of at most 20 tokens each: enough to tell the means apart
GRID = 2.0**-9  # every bfloat16 of magnitude 1/2 or more is a multiple of it or coarser


@dataclass(frozen=True)
class Generated:
    """What a generator says: completions as a batch, and first-token log-probabilities of one prompt."""

    batch: Batch
    first_logp: np.ndarray


@pytest.fixture(scope="module")
def bfloat16_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an untaught model with logits as spread as a real one's."""
    torch.manual_seed(0)
    lessons = Lessons(hidden=128, layers=1, heads=2, mlp=256, context=96)
    model = new_model(lessons)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(20)
    folder = tmp_path_factory.mktemp("home") / "models" / "bfloat16"
    save(model, lessons, folder)
    return folder


def recipe_with(model: Path, engine: str, head_generator: str, head_trainer: str) -> Recipe:
    settings = {
        "model": str(model),
        "engine.type": engine,
        "engine.kv_cache_mib": 64,
        "precision.generator": "bfloat16",
        "precision.trainer": "bfloat16",
        "precision.head_generator": head_generator,
        "precision.head_trainer": head_trainer,
    }
    return apply_overrides(load_recipe("tiny/scalerl"), settings)


def generate(model: Path, engine: str, head: str) -> Generated:
    """All that the tests ask of one engine, which lives for this call alone."""
    from training.engines import make_engine

    codec = Codec(model)
    prompts = [codec.encode(make_prompt(10 + i % 90, 99 - i // 7).text) for i in range(PROMPTS)]

    async def work() -> tuple[list[Completion], list[Completion]]:
        made = make_engine(recipe_with(model, engine, head, head).model_dump(mode="json"), str(model))
        try:
            await made.check_head()
            long = await made.generate([Request(prompt, 20) for prompt in prompts], 1.0)
            return long, await made.generate([Request(prompts[0], 1)] * 1024, 1.0)
        finally:
            made.shutdown()

    long, short = asyncio.run(work())
    groups = []
    for prompt, completion in zip(prompts, long, strict=True):
        sample = Sample(prompt)
        sample.add(completion)
        groups.append(Group(make_prompt(1, 1), [sample]))
    return Generated(make_batch(groups), np.array(sorted({c.logp[0] for c in short})))


@pytest.fixture(scope="module")
def said(request: pytest.FixtureRequest, bfloat16_model: Path) -> Iterator[tuple[str, dict[str, Generated]]]:
    """Engine, and what it says with a bfloat16 and with a float32 head."""
    environment = dict(os.environ)  # vLLM's engine changes it
    yield request.param, {head: generate(bfloat16_model, request.param, head) for head in HEADS}
    os.environ.clear()
    os.environ.update(environment)


@pytest.mark.parametrize(
    "said", ["transformers", pytest.param("vllm", marks=(pytest.mark.deep, pytest.mark.vllm))], indirect=True
)
def test_logits_of_an_fp32_head_are_not_rounded_to_bfloat16(said: tuple[str, dict[str, Generated]]) -> None:
    """Differences of log-probabilities are differences of logits; those of bfloat16 logits lie on a grid."""

    def distance_from_grid(logp: np.ndarray) -> float:
        steps = (logp - logp[0]) / GRID
        return float(np.abs(steps - np.round(steps)).max())

    _, by_head = said
    assert all(len(by_head[head].first_logp) > 2 for head in HEADS)
    assert distance_from_grid(by_head["bfloat16"].first_logp) < 0.01
    assert distance_from_grid(by_head["float32"].first_logp) > 0.05


@pytest.mark.parametrize(
    "said", ["transformers", pytest.param("vllm", marks=(pytest.mark.deep, pytest.mark.vllm))], indirect=True
)
def test_mismatch_is_smallest_with_fp32_on_both(
    said: tuple[str, dict[str, Generated]], bfloat16_model: Path
) -> None:
    engine, by_head = said
    means = {}
    for generator in HEADS:
        for trainer in HEADS:
            recipe = recipe_with(bfloat16_model, engine, generator, trainer)
            logp = Trainer(recipe.model_dump(mode="json"), str(bfloat16_model)).logp(by_head[generator].batch)
            means[generator, trainer] = mismatch(by_head[generator].batch, logp)["train/mismatch_logp_mean"]
    both, none = means["float32", "float32"], means["bfloat16", "bfloat16"]
    on_one = [means["float32", "bfloat16"], means["bfloat16", "float32"]]

    assert both < min(on_one) and both < 0.9 * none
    if engine == "vllm":  # the other engine runs the trainer's own kernels, whose bfloat16 heads round alike
        assert sum(on_one) / 2 < 1.05 * none  # one of the two alone lies within the samples' noise of none


@pytest.mark.deep
@pytest.mark.vllm
def test_a_head_that_vllm_runs_in_bfloat16_is_refused_where_float32_was_asked_for(
    bfloat16_model: Path,
) -> None:
    from training.engines import make_engine

    environment = dict(os.environ)

    async def work() -> None:
        recipe = recipe_with(bfloat16_model, "vllm", "bfloat16", "bfloat16")
        made = make_engine(recipe.model_dump(mode="json"), str(bfloat16_model))
        try:
            made._precision = recipe.precision.model_copy(update={"head_generator": "float32"})
            with pytest.raises(ValueError, match="precision.head_generator is float32.* in bfloat16 here"):
                await made.check_head()
        finally:
            made.shutdown()

    asyncio.run(work())
    os.environ.clear()
    os.environ.update(environment)
