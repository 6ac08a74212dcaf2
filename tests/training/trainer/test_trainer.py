from pathlib import Path

import numpy as np
import pytest
import torch

from training.flops import Work
from training.recipe import Recipe, apply_overrides
from training.rollouts import Completion, Group, Sample
from training.tasks import Prompt
from training.trainer.batching import Batch, make_batch
from training.trainer.trainer import Trainer


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
            sample.add(Completion(rng.integers(4, 14, length).tolist(), [-2.5] * length, True, [0] * length))
            sample.reward = reward
            samples.append(sample)
        groups.append(Group(Prompt(str(start), "", ""), samples))
    return make_batch(groups)


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer._networks.state_dict().items()}


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
    first.save(str(tmp_path / "trainer"))
    resumed = make_trainer(toy_recipe, toy_model)

    assert resumed.load(str(tmp_path / "trainer")) == 1
    assert resumed.train_step(a_batch(1)).metrics == straight.train_step(a_batch(1)).metrics
    for name, value in weights(resumed).items():
        torch.testing.assert_close(value, weights(straight)[name], atol=0, rtol=0)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_moments_on_the_host_change_no_update_and_go_on_from_either_place(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path, precision: str
) -> None:
    settings = {"precision__trainer": precision, "optimizer__warmup_steps": 0, "loss__type": "ppo"}
    plain = make_trainer(toy_recipe, toy_model, **settings)
    offloaded = make_trainer(toy_recipe, toy_model, optimizer__offload_moments=True, **settings)
    for place, trainer in ((0, plain), (1, offloaded)):
        trainer.train_step(a_batch(0))
        trainer.save(str(tmp_path / str(place)))

    offloaded.load(str(tmp_path / "0"))
    plain.load(str(tmp_path / "1"))

    assert offloaded.train_step(a_batch(1)).metrics == plain.train_step(a_batch(1)).metrics
    for name, value in plain._state().tensors().items():
        torch.testing.assert_close(offloaded._state().tensors()[name], value, atol=0, rtol=0)


def test_resume_takes_the_learning_rate_of_the_recipe(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path
) -> None:
    first = make_trainer(toy_recipe, toy_model, optimizer__warmup_steps=0, loss__type="ppo")
    first.train_step(a_batch(0))
    first.save(str(tmp_path / "trainer"))
    changed = make_trainer(
        toy_recipe,
        toy_model,
        optimizer__warmup_steps=0,
        loss__type="ppo",
        optimizer__lr=0.3,
        critic__lr=0.4,
    )
    changed.load(str(tmp_path / "trainer"))
    changed.train_step(a_batch(1))

    assert [group["lr"] for group in changed._optimizer.param_groups] == [0.3, 0.4]


def test_head_runs_in_the_precision_asked_for(toy_recipe: Recipe, toy_model: Path) -> None:
    exact = make_trainer(toy_recipe, toy_model, precision__head_trainer="float32").logp(a_batch())
    rough = make_trainer(toy_recipe, toy_model, precision__head_trainer="bfloat16").logp(a_batch())

    assert exact.dtype == np.float32
    assert 1e-5 < np.abs(exact - rough).max() < 0.1


def test_logp_is_a_distribution(toy_recipe: Recipe, toy_model: Path) -> None:
    trainer = make_trainer(toy_recipe, toy_model)
    vocabulary = trainer._networks.policy.config.vocab_size
    tokens = torch.tensor([[5, 6, last] for last in range(vocabulary)])

    logp, entropy, _ = trainer._networks(tokens, torch.ones(len(tokens), 2, dtype=torch.bool))

    assert logp[:, 1].exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert 0 < entropy[0, 1].item() <= np.log(vocabulary) + 1e-5


def test_infinite_gradient_is_an_error(toy_recipe: Recipe, toy_model: Path) -> None:
    batch = a_batch()
    batch.rewards[0] = np.inf

    with pytest.raises(ValueError, match="gradient norm of step 1 is not finite"):
        make_trainer(toy_recipe, toy_model, advantage__norm="none").train_step(batch)


PPO = {"loss__type": "ppo", "optimizer__lr": 1e-3, "optimizer__warmup_steps": 0}


@pytest.mark.parametrize("trunk", ["shared", "separate"])
def test_critic_learns_the_returns_and_explains_the_advantages_away(
    toy_recipe: Recipe, toy_model: Path, trunk: str
) -> None:
    trainer = make_trainer(
        toy_recipe,
        toy_model,
        **PPO,
        critic__trunk=trunk,
        critic__lr=0.05,
        critic__lam=1.0,
        critic__eps_value=9,
    )
    always_right = a_batch(rewards=(1, 1, 1, 1, 1, 1))

    losses = [trainer.train_step(always_right).metrics["value_loss"] for _ in range(30)]

    assert losses[0] == pytest.approx(1)  # values begin at 0, returns are 1
    assert losses[-1] < 0.05


def test_micro_batches_do_not_change_the_update_of_the_whole_objective(
    toy_recipe: Recipe, toy_model: Path
) -> None:
    everything = {
        **PPO,
        "loss__kl_coef": 0.1,
        "loss__entropy_coef": 0.01,
        "loss__epochs": 3,
        "loss__old_policy": "trainer",
        "loss__importance_cap": 2.0,
        "advantage__norm": "global",
    }
    whole = make_trainer(toy_recipe, toy_model, **everything)
    split = make_trainer(toy_recipe, toy_model, **everything, trainer__micro_batch_tokens=1)
    for seed in range(2):
        first, second = whole.train_step(a_batch(seed)), split.train_step(a_batch(seed))

    assert second.metrics == pytest.approx(first.metrics, rel=1e-3, abs=1e-5)
    assert first.metrics["kl_reference"] > 0


def test_kl_to_the_start_is_zero_at_the_start_and_holds_the_policy_back(
    toy_recipe: Recipe, toy_model: Path
) -> None:
    fast = {"optimizer__lr": 1e-2, "optimizer__warmup_steps": 0, "loss__kl_estimate": "k2"}
    free = make_trainer(toy_recipe, toy_model, **fast, loss__kl_coef=1e-9)
    held = make_trainer(toy_recipe, toy_model, **fast, loss__kl_coef=10.0)
    for step in range(6):
        metrics = [trainer.train_step(a_batch(0)).metrics["kl_reference"] for trainer in (free, held)]
        if step == 0:
            assert metrics == pytest.approx([0, 0], abs=1e-6)

    assert metrics[1] < 0.5 * metrics[0]


def test_reference_after_a_resume_is_the_start_of_the_run(
    toy_recipe: Recipe, toy_model: Path, tmp_path: Path
) -> None:
    settings = {"optimizer__lr": 1e-2, "optimizer__warmup_steps": 0, "loss__kl_coef": 0.1}
    straight = make_trainer(toy_recipe, toy_model, **settings)
    straight.train_step(a_batch(0))
    straight.save(str(tmp_path / "trainer"))
    resumed = make_trainer(toy_recipe, toy_model, **settings)
    resumed.load(str(tmp_path / "trainer"))

    assert resumed.train_step(a_batch(1)).metrics == straight.train_step(a_batch(1)).metrics


def test_entropy_bonus_keeps_the_policy_open(toy_recipe: Recipe, toy_model: Path) -> None:
    fast = {"optimizer__lr": 1e-2, "optimizer__warmup_steps": 0}
    plain = make_trainer(toy_recipe, toy_model, **fast)
    rewarded = make_trainer(toy_recipe, toy_model, **fast, loss__entropy_coef=1.0)
    for _ in range(6):
        entropies = [trainer.train_step(a_batch(0)).metrics["entropy"] for trainer in (plain, rewarded)]

    assert entropies[1] > entropies[0] + 0.01


def test_epochs_are_updates_on_the_same_batch_and_count_as_compute(
    toy_recipe: Recipe, toy_model: Path
) -> None:
    fast = {"optimizer__lr": 1e-2, "optimizer__warmup_steps": 0, "loss__type": "grpo"}
    batch = a_batch()

    once = make_trainer(toy_recipe, toy_model, **fast).train_step(batch)
    trainer = make_trainer(toy_recipe, toy_model, **fast, loss__epochs=4, loss__old_policy="trainer")
    four = trainer.train_step(batch)

    assert trainer._optimizer.state_dict()["state"][0]["step"].item() == 4
    assert four.work == once.work * 4
    assert (once.forward_work, four.forward_work) == (Work(), once.work)  # old log-probabilities
    assert four.metrics["ratio_max"] > 1.001  # the last update's: the policy has moved since the step began


def test_one_pass_with_the_trainers_old_policy_is_on_policy(toy_recipe: Recipe, toy_model: Path) -> None:
    settings = {"loss__type": "grpo", "loss__old_policy": "trainer", "loss__importance_cap": 2.0}
    metrics = make_trainer(toy_recipe, toy_model, **settings).train_step(a_batch()).metrics

    assert (metrics["ratio_max"], metrics["ratio_min"]) == (1, 1)
    assert metrics["importance_mean"] != 1  # the batch claims -2.5 for every token


def test_global_norm_goes_on_after_a_resume(toy_recipe: Recipe, toy_model: Path, tmp_path: Path) -> None:
    settings = {"advantage__norm": "global"}
    straight = make_trainer(toy_recipe, toy_model, **settings)
    straight.train_step(a_batch(0, rewards=(9, -9, 9, -9, 9, -9)))
    straight.save(str(tmp_path / "trainer"))
    resumed = make_trainer(toy_recipe, toy_model, **settings)
    resumed.load(str(tmp_path / "trainer"))

    assert resumed._moments == straight._moments != make_trainer(toy_recipe, toy_model)._moments
    assert resumed.train_step(a_batch(1)).metrics == straight.train_step(a_batch(1)).metrics


def test_refill_leaves_what_still_teaches_nothing_out_of_the_loss(
    toy_recipe: Recipe, toy_model: Path
) -> None:
    trainer = make_trainer(toy_recipe, toy_model, filter__zero_variance="refill")

    assert trainer.train_step(a_batch()).metrics["effective_batch"] == 4


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_lower_precision_trains_float32_weights(toy_recipe: Recipe, toy_model: Path, dtype: str) -> None:
    settings = {"precision__trainer": dtype, "optimizer__lr": 1e-3, "optimizer__warmup_steps": 0}
    exact = make_trainer(toy_recipe, toy_model, **settings | {"precision__trainer": "float32"})
    lower = make_trainer(toy_recipe, toy_model, **settings)

    norms = [trainer.train_step(a_batch()).metrics["grad_norm"] for trainer in (exact, lower)]

    assert norms[1] == pytest.approx(norms[0], rel=0.05)
    assert all(value.dtype == torch.float32 for value in weights(lower).values())


def test_float16_overflow_leaves_the_update_out_and_goes_on(toy_recipe: Recipe, toy_model: Path) -> None:
    trainer = make_trainer(
        toy_recipe, toy_model, precision__trainer="float16", optimizer__lr=1e-3, optimizer__warmup_steps=0
    )
    before, huge = weights(trainer), a_batch()
    huge.behaviour_logp[:] = -19  # ratios at the cap ...
    trainer._scaler._init_scale = 2.0**40  # ... and a scale that float16 cannot hold

    skipped = trainer.train_step(huge).metrics
    for name, value in weights(trainer).items():
        torch.testing.assert_close(value, before[name], atol=0, rtol=0)
    for _ in range(40):
        metrics = trainer.train_step(a_batch()).metrics
        if "skipped_updates" not in metrics:
            break

    assert skipped["skipped_updates"] == 1
    assert metrics["grad_norm"] > 0


def test_what_each_sample_had_in_the_update_is_told(toy_recipe: Recipe, toy_model: Path) -> None:
    batch = a_batch(rewards=(1, -1, 1, 1, -1, 1))
    whole = make_trainer(toy_recipe, toy_model, filter__zero_variance="drop")
    split = make_trainer(toy_recipe, toy_model, filter__zero_variance="drop", trainer__micro_batch_tokens=1)
    said = whole.logp(batch)

    told, in_parts = whole.train_step(batch).by_sample, split.train_step(batch).by_sample

    assert told is not None and in_parts is not None
    left_out = np.isnan(told.advantages)
    assert left_out.tolist() == [False, False, True, True, False, False] == np.isnan(told.logp_gap).tolist()
    assert (np.sign(told.advantages[~left_out]) == batch.rewards[~left_out]).all()
    gaps = (np.abs(said - batch.behaviour_logp) * batch.mask).sum(1) / batch.mask.sum(1)
    np.testing.assert_allclose(told.logp_gap[~left_out], gaps[~left_out], rtol=1e-4)
    np.testing.assert_allclose(in_parts.logp_gap, told.logp_gap, rtol=1e-4)
    np.testing.assert_array_equal(in_parts.advantages, told.advantages)
