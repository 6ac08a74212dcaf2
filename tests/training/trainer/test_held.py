from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training.driver.test_controller import change
from training.driver.parity import mismatch
from training.recipe import Recipe
from training.rollouts import Group, Sample
from training.tasks.arithmetic import make_prompt
from training.trainer.batching import make_batch
from training.trainer.network import as_held
from training.trainer.trainer import Trainer


def test_rounded_forward_and_not_backward() -> None:
    weight = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)

    held = as_held(weight, torch.bfloat16)
    gradient = torch.rand(5, 3)
    held.backward(gradient)

    assert held.dtype == torch.float32 and torch.equal(held, weight.bfloat16().float())
    assert torch.equal(weight.grad, gradient)  # type: ignore[arg-type]
    assert as_held(weight, torch.float32) is weight


@pytest.mark.parametrize(("generator", "is_noticed"), [("bfloat16", False), ("float32", True)])
def test_what_the_generator_cannot_hold_is_not_in_the_trainers_head(
    toy_recipe: Recipe, generator: str, is_noticed: bool
) -> None:
    """A change of the float32 weights that is lost in the generator's precision."""
    recipe = change(toy_recipe, precision__generator=generator, precision__trainer="float32")
    trainer = Trainer(recipe.model_dump(mode="json"), recipe.model)
    sample = Sample([5, 6], [7, 8, 9, 5, 4, 6], [0.0] * 6, [True] * 6, versions=[0] * 6)
    batch = make_batch([Group(make_prompt(1, 1), [sample])])
    policy = trainer._networks.policy
    head = policy.get_output_embeddings().weight
    with torch.no_grad():  # an untied head, on bfloat16's grid and a little beside it
        policy.config.tie_word_embeddings = False
        policy.lm_head.weight = torch.nn.Parameter(head.bfloat16().float())
        before = trainer.logp(batch)
        policy.lm_head.weight.mul_(1 + 2**-11)
    after = trainer.logp(batch)

    assert bool(np.abs(after - before).max() > 0) == is_noticed
    sent = dict(trainer.named_weights())["lm_head.weight"]
    assert torch.equal(sent.float(), as_held(policy.lm_head.weight, sent.dtype))


def test_gap_of_fresh_tokens_is_that_of_the_log_probabilities(toy_recipe: Recipe) -> None:
    """Over micro-batches; tokens of other versions, forced ones and later epochs do not count."""
    recipe = change(
        toy_recipe,
        precision__trainer="float32",
        trainer__micro_batch_tokens=8,
        loss__epochs=2,
        optimizer__lr=0.1,
    )
    trainer = Trainer(recipe.model_dump(mode="json"), recipe.model)
    samples = [
        Sample([5, 6], [7, 8, 9, 5], [-1.0, -2.0, -0.5, -3.0], [True, True, False, True], versions=versions)
        for versions in ([3, 4, 4, 4], [4, 4, 4, 5], [3, 3, 3, 3])
    ]
    samples[0].reward = 1.0
    groups = [Group(make_prompt(1, 1), samples)]
    batch = make_batch(groups, version=4)
    assert batch.fresh[:, 1:].tolist() == [
        [False, True, False, True],
        [True, True, False, False],
        [False] * 4,
    ]
    assert not make_batch(groups).fresh.any()
    expected = mismatch(replace(batch, mask=batch.fresh), trainer.logp(batch))

    metrics = trainer.train_step(batch).metrics

    assert metrics["mismatch_fresh_logp_mean"] == pytest.approx(
        expected["train/mismatch_logp_mean"], rel=1e-5
    )
    assert metrics["mismatch_fresh_logp_max"] == pytest.approx(expected["train/mismatch_logp_max"], rel=1e-5)
    assert "fresh_share" not in metrics and "fresh_gap" not in metrics
    without = trainer.train_step(make_batch(groups, version=9)).metrics
    assert not [name for name in without if "fresh" in name]
