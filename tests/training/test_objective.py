import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.deep import examples
from tests.training.objectives import (
    AGGREGATIONS,
    ROWS,
    TYPES,
    a_recipe,
    leaves,
    loss_and_gradients,
    random_batch,
)
from training.losses import aggregation_weights
from training.objective import Prediction, Targets, objective
from training.schema import Recipe

# Four tokens that count: two of the first row, one of each other row.
MASK = torch.tensor([[True, True], [True, False], [True, False]])
LOGP = torch.tensor([[-1.0, -2.0], [-0.5, 0.0], [-3.0, 0.0]], dtype=torch.float64)
RATIO = torch.tensor([[1.0, 6.0], [0.5, 1.0], [1.5, 1.0]], dtype=torch.float64)  # to the old policy
IMPORTANCE = torch.tensor([[0.25, 1.0], [3.0, 1.0], [8.0, 1.0]], dtype=torch.float64)  # old to generator
ADVANTAGES = torch.tensor([[1.0, -2.0], [3.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
ENTROPY = torch.tensor([[0.5, 1.0], [2.0, 9.0], [1.5, 9.0]], dtype=torch.float64)
TO_REFERENCE = torch.tensor(
    [[0.5, -1.0], [0.0, 1.0], [2.0, 1.0]], dtype=torch.float64
)  # log pi - log reference
VALUES = torch.tensor([[1.0, -2.0], [3.0, 0.0], [1.5, 0.0]], dtype=torch.float64)
RETURNS = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
OLD_VALUES = torch.tensor([[0.9, -1.0], [0.0, 0.0], [2.5, 0.0]], dtype=torch.float64)

OF_POLICY = [0.25 * -1.0, 12.0, 1.5 * -1.5, 1.5 * 1.5]  # ppo, times min(IMPORTANCE, 1.5)
K3 = [math.exp(-0.5) - 0.5, math.e - 2, 0.0, math.exp(-2.0) + 1]
OF_VALUES = [1.0, 9.0, 4.0, (2.1 - 1) ** 2]  # clipped at 0.4


def by_hand(recipe: Recipe) -> tuple[Prediction, Targets]:
    prompts = torch.tensor([7, 7, 9])
    old_logp = LOGP - RATIO.log()
    targets = Targets(
        mask=MASK,
        behaviour_logp=old_logp - IMPORTANCE.log(),
        prompt_index=prompts,
        weights=aggregation_weights(recipe.loss.aggregation, mask=MASK, prompt_index=prompts),
        advantages=ADVANTAGES,
        old_logp=old_logp,
        reference_logp=LOGP - TO_REFERENCE,
        old_values=OLD_VALUES,
        returns=RETURNS,
    )
    return Prediction(LOGP, ENTROPY, VALUES), targets


def average(aggregation: str, tokens: list[float]) -> float:
    a, b, c, d = tokens
    return {
        "token": (a + b + c + d) / 4,
        "sample": ((a + b) / 2 + c + d) / 3,
        "prompt": ((a + b + c) / 3 + d) / 2,
        "sum": a + b + c + d,
    }[aggregation]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_loss_is_the_sum_of_its_four_terms(aggregation: str) -> None:
    recipe = a_recipe("ppo", aggregation)

    loss, _ = objective(recipe, *by_hand(recipe))

    policy, kl, entropy, value = (
        average(aggregation, tokens) for tokens in (OF_POLICY, K3, [0.5, 1.0, 2.0, 1.5], OF_VALUES)
    )
    assert loss.item() == pytest.approx(policy + 0.3 * kl - 0.2 * entropy + 0.7 * value, abs=1e-5)


def test_metrics_are_means_over_counted_tokens() -> None:
    recipe = a_recipe("ppo", "prompt")

    _, metrics = objective(recipe, *by_hand(recipe))

    assert metrics["entropy"] == pytest.approx(5 / 4)
    assert metrics["kl_reference"] == pytest.approx(sum(K3) / 4)
    assert metrics["value_loss"] == pytest.approx(sum(OF_VALUES) / 4)
    assert metrics["ratio_max"] == pytest.approx(6.0)
    assert metrics["importance_mean"] == pytest.approx((0.25 + 1 + 1.5 + 1.5) / 4)


def test_terms_that_are_not_asked_for_are_not_there() -> None:
    recipe = a_recipe("cispo", is_critic_wanted=False, kl_coef=0, entropy_coef=0)
    said, targets = random_batch(0, recipe)
    loss, metrics = objective(recipe, said, replace(targets, reference_logp=None))
    loss.backward()

    assert said.logp.grad is not None
    assert said.entropy.grad is None
    assert {"kl_reference", "value_loss"}.isdisjoint(metrics)


def test_each_term_has_its_gradient_in_its_own_prediction() -> None:
    recipe = a_recipe("reinforce", "token", old_policy="generator", importance_cap=None, kl_coef=0)
    said, targets = random_batch(1, recipe)
    _, (of_logp, of_entropy, of_values) = loss_and_gradients(
        recipe, said, replace(targets, reference_logp=None)
    )
    mask, count = targets.mask, targets.mask.sum()

    torch.testing.assert_close(of_logp, torch.where(mask, -targets.advantages, 0.0) / count)
    torch.testing.assert_close(of_entropy, torch.where(mask, -0.2, 0.0).double() / count)
    assert said.values is not None and targets.returns is not None and targets.old_values is not None
    error, moved = said.values.detach() - targets.returns, said.values.detach() - targets.old_values
    farther = (targets.old_values + moved.clamp(-0.4, 0.4) - targets.returns).abs() > error.abs()
    expected = torch.where(mask & ~farther, 0.7 * 2 * error, 0.0) / count
    torch.testing.assert_close(of_values, expected)
    assert bool((mask & farther).any())


def test_the_generators_probabilities_have_no_gradient() -> None:
    recipe = a_recipe("ppo")
    said, targets = random_batch(2, recipe)
    behaviour_logp = targets.behaviour_logp.detach().requires_grad_()

    objective(recipe, said, replace(targets, behaviour_logp=behaviour_logp))[0].backward()

    assert behaviour_logp.grad is None


def test_the_first_update_of_old_policy_trainer_needs_no_forward_pass_of_its_own() -> None:
    """Without old_logp the policy itself is the old one: the ratio is 1, its gradient is not lost."""
    recipe = a_recipe("ppo")
    said, targets = random_batch(3, recipe)
    now = replace(targets, old_logp=said.logp.detach().clone())

    without = loss_and_gradients(recipe, said, replace(targets, old_logp=None))
    given_now = loss_and_gradients(recipe, said, now)

    assert without[0] == given_now[0]
    torch.testing.assert_close(without[1], given_now[1], atol=0, rtol=0)
    assert without[1][0].abs().max() > 0


def test_old_policy_generator_leaves_old_logp_alone() -> None:
    recipe = a_recipe("ppo", old_policy="generator", importance_cap=None)
    said, targets = random_batch(4, recipe)

    loss, metrics = objective(recipe, said, targets)

    assert loss.item() == objective(recipe, said, replace(targets, old_logp=None))[0].item()
    assert "importance_mean" not in metrics


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_the_policy_at_its_reference_pays_nothing(kind: str) -> None:
    recipe = a_recipe("reinforce", kl_coef=10.0, kl_estimate=kind)
    said, targets = random_batch(5, recipe)
    at_reference = replace(targets, reference_logp=said.logp.detach().clone())
    without = replace(targets, reference_logp=None)

    loss, metrics = objective(recipe, said, at_reference)

    assert metrics["kl_reference"] == 0
    assert loss.item() == pytest.approx(objective(recipe, said, without)[0].item())
    difference = (
        loss_and_gradients(recipe, said, at_reference)[1][0] - loss_and_gradients(recipe, said, without)[1][0]
    )
    expected = (
        10.0 * targets.weights.unsqueeze(1) * targets.mask if kind == "k1" else torch.zeros_like(said.logp)
    )
    torch.testing.assert_close(difference, expected, check_dtype=False)


@pytest.mark.parametrize("type", TYPES)
def test_anything_under_the_mask_leaves_loss_and_gradients_alone(type: str) -> None:
    recipe = a_recipe(type)
    said, targets = random_batch(6, recipe)
    clean = loss_and_gradients(recipe, said, targets)
    holes = ~targets.mask

    def spoil(value: Tensor | None, by: float) -> Tensor | None:
        return value if value is None or value.dim() == 1 else value.detach().masked_fill(holes, by)

    spoilt = Prediction(
        spoil(said.logp, -math.inf), spoil(said.entropy, math.nan), spoil(said.values, math.inf)
    )
    names = ("behaviour_logp", "old_logp", "reference_logp", "old_values", "returns", "advantages")
    dirty = replace(targets, **{name: spoil(getattr(targets, name), math.nan) for name in names})
    loss, gradients = loss_and_gradients(recipe, spoilt, dirty)

    assert loss == clean[0]
    torch.testing.assert_close(gradients, clean[1], atol=0, rtol=0)
    assert all((gradient[holes] == 0).all() for gradient in gradients)


def test_nothing_counted_is_a_loss_of_0() -> None:
    recipe = a_recipe("ppo")
    said, targets = random_batch(7, recipe)

    loss, gradients = loss_and_gradients(recipe, said, replace(targets, mask=torch.zeros_like(targets.mask)))

    assert loss == 0
    assert all((gradient == 0).all() for gradient in gradients)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("type", TYPES)
@settings(max_examples=examples(8), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    places=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=ROWS, max_size=ROWS),
)
def test_micro_batches_of_any_ranks_add_up(
    type: str, aggregation: str, seed: int, places: list[tuple[int, int]]
) -> None:
    """Each row goes to a micro-batch of a rank; ranks and micro-batches may be empty."""
    recipe = a_recipe(type, aggregation)
    said, targets = random_batch(seed, recipe)
    ranks = [
        [torch.tensor([r for r in range(ROWS) if places[r] == (rank, m)], dtype=torch.long) for m in range(3)]
        for rank in range(3)
    ]

    whole, of_whole = loss_and_gradients(recipe, said, targets)
    shares = [loss_and_gradients(recipe, said, targets, micro_batches) for micro_batches in ranks]

    assert sum(loss for loss, _ in shares) == pytest.approx(whole, abs=1e-6, rel=1e-6)
    for leaf in range(len(leaves(said))):
        reduced = torch.stack([gradients[leaf] for _, gradients in shares]).sum(dim=0)
        torch.testing.assert_close(reduced, of_whole[leaf], atol=1e-6, rtol=1e-6)
