from pathlib import Path

import numpy as np
import pytest
import torch

from training.batching import Batch, make_batch
from training.recipe import Recipe, apply_overrides
from training.rollouts import Completion, Group, Sample
from training.tasks import Prompt
from training.trainer import Trainer


def make_trainer(recipe: Recipe, folder: Path, **overrides: object) -> Trainer:
    changed = apply_overrides(recipe, {key.replace("__", "."): value for key, value in overrides.items()})
    return Trainer(changed.model_dump(mode="json"), str(folder))


def a_batch(seed: int = 0, rewards: tuple[float, ...] = (1, -1, 1, 1, -1, 1)) -> Batch:
    """3 prompts x 2 samples of different lengths; the second prompt teaches nothing by default."""
    rng = np.random.default_rng(seed)
    groups = []
    for start in range(0, len(rewards), 2):
        samples = []
        for reward in rewards[start : start + 2]:
            sample = Sample(rng.integers(4, 14, 5).tolist())
            length = int(rng.integers(2, 9))
            sample.add(Completion(rng.integers(4, 14, length).tolist(), [-2.5] * length, True, 0, 0))
            sample.reward = reward
            samples.append(sample)
        groups.append(Group(Prompt(str(start), "", ""), samples))
    return make_batch(groups)


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer._model.state_dict().items()}


@pytest.mark.parametrize("aggregation", ["prompt", "sample", "token"])
def test_micro_batches_do_not_change_the_update(
    toy_recipe: Recipe, toy_model: Path, aggregation: str
) -> None:
    whole = make_trainer(toy_recipe, toy_model, loss__aggregation=aggregation)
    split = make_trainer(toy_recipe, toy_model, loss__aggregation=aggregation, trainer__micro_batch_tokens=1)

    first, second = whole.train_step(a_batch()), split.train_step(a_batch())

    assert second.metrics["loss"] == pytest.approx(first.metrics["loss"], abs=1e-6)
    assert second.metrics["grad_norm"] == pytest.approx(first.metrics["grad_norm"], rel=1e-4)
    assert second.metrics["kl"] == pytest.approx(first.metrics["kl"], rel=1e-4)


def test_zero_variance_prompts_leave_numerator_and_denominator(toy_recipe: Recipe, toy_model: Path) -> None:
    batch = a_batch()
    rows = batch.prompt_index != 1
    without = Batch(**{name: values[rows] for name, values in vars(batch).items()})
    dropping = {"filter__zero_variance": "drop"}

    filtered = make_trainer(toy_recipe, toy_model, **dropping).train_step(batch)
    never_there = make_trainer(toy_recipe, toy_model, **dropping).train_step(without)

    assert filtered.metrics["effective_batch"] == 4
    assert filtered.metrics["loss"] == pytest.approx(never_there.metrics["loss"], abs=1e-7)
    assert filtered.trained_tokens == int(without.mask.sum())


def test_nothing_to_learn_changes_no_weight(toy_recipe: Recipe, toy_model: Path) -> None:
    trainer = make_trainer(toy_recipe, toy_model, filter__zero_variance="drop")
    before = weights(trainer)

    result = trainer.train_step(a_batch(rewards=(1, 1, -1, -1)))

    assert result.metrics["effective_batch"] == 0
    for name, value in weights(trainer).items():
        torch.testing.assert_close(value, before[name], atol=0, rtol=0)


def test_warm_up_grows_linearly(toy_recipe: Recipe, toy_model: Path) -> None:
    trainer = make_trainer(toy_recipe, toy_model, optimizer__warmup_steps=4, optimizer__lr=0.4)
    rates = []
    for step in range(6):
        trainer.train_step(a_batch(step))
        rates.append(trainer._optimizer.param_groups[0]["lr"])

    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_saved_trainer_goes_on_as_if_never_stopped(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path
) -> None:
    straight, first = make_trainer(toy_recipe, toy_model), make_trainer(toy_recipe, toy_model)
    for trainer in (straight, first):
        trainer.train_step(a_batch(0))
    first.save(str(tmp_path / "t.pt"))
    resumed = make_trainer(toy_recipe, toy_model)

    assert resumed.load(str(tmp_path / "t.pt")) == 1
    assert resumed.train_step(a_batch(1)).metrics == straight.train_step(a_batch(1)).metrics
    for name, value in weights(resumed).items():
        torch.testing.assert_close(value, weights(straight)[name], atol=0, rtol=0)


def test_head_runs_in_the_precision_asked_for(toy_recipe: Recipe, toy_model: Path) -> None:
    exact = make_trainer(toy_recipe, toy_model, precision__head_trainer="float32").logp(a_batch())
    rough = make_trainer(toy_recipe, toy_model, precision__head_trainer="bfloat16").logp(a_batch())

    assert exact.dtype == np.float32
    assert 1e-5 < np.abs(exact - rough).max() < 0.1


def test_logp_is_a_distribution(toy_recipe: Recipe, toy_model: Path) -> None:
    trainer = make_trainer(toy_recipe, toy_model)
    vocabulary = trainer._model.config.vocab_size
    tokens = torch.tensor([[5, 6, last] for last in range(vocabulary)])

    logp, entropy = trainer._logp(tokens)

    assert logp[:, 1].exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert 0 < entropy[0, 1].item() <= np.log(vocabulary) + 1e-5


def test_infinite_gradient_is_an_error(toy_recipe: Recipe, toy_model: Path) -> None:
    batch = a_batch()
    batch.rewards[0] = np.inf

    with pytest.raises(ValueError, match="gradient norm of step 1 is not finite"):
        make_trainer(toy_recipe, toy_model, advantage__norm="none").train_step(batch)
