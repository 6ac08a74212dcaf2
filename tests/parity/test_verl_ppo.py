"""What PPO adds to a policy loss, against verl's own functions: GAE, value loss, KL, entropy, second ratio, IcePop.

docs/losses.md lists the differences. verl's `ppo_loss`, which adds the terms up, asks for more packages than the
functions that it calls, so the sum is made here in the same way.
"""

import pytest
import torch
from torch import Tensor

from tests.parity.batches import (
    SEEDS,
    TOKENS,
    Batch,
    assert_same,
    close,
    config,
    noise,
    our_loss,
    random_batch,
    value_and_gradient,
)
from tests.parity.verl_functions import MODES, verl, verl_loss
from tests.training.objectives import a_recipe
from training.advantages import gae, normalize_tokens
from training.losses import aggregate, aggregation_weights, importance_weights, value_loss
from training.objective import Prediction, Targets, objective
from training.trainer.network import logp_and_entropy

rollout_correction = pytest.importorskip("verl.trainer.ppo.rollout_corr_helper")

CAP = 1.5
KINDS = [(1.0, 1.0), (1.0, 0.95), (0.9, 0.8), (0.9, 0.0)]  # gamma, lambda

for_seeds = pytest.mark.parametrize("seed", SEEDS)
for_aggregations = pytest.mark.parametrize("aggregation", MODES)


def verl_gae(batch: Batch, values: Tensor, *, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """verl's advantages and returns of `batch.advantages` as rewards, each paid at its row's last counted token."""
    last = (batch.mask * torch.arange(1, TOKENS + 1)).argmax(dim=1)
    rewards = torch.zeros_like(values)
    rewards[torch.arange(len(values)), last] = batch.advantages
    return verl.compute_gae_advantage_return(rewards, values, batch.mask.double(), gamma, lam)


@for_seeds
@pytest.mark.parametrize("gamma, lam", KINDS)
def test_gae_and_its_returns(gamma: float, lam: float, seed: int) -> None:
    """verl whitens: (A - mean) / sqrt(v M / (M - 1) + 1e-8), v the population variance of M tokens; ours: / sqrt(v)."""
    batch, mask = random_batch(seed), random_batch(seed).mask
    values = noise(seed, batch.logp)

    theirs, their_returns = verl_gae(batch, values, gamma=gamma, lam=lam)

    ours, returns = gae(batch.advantages, values, mask, gamma=gamma, lam=lam)
    close(their_returns[mask], returns[mask])
    close((their_returns - values)[mask], ours[mask])
    tokens, variance = mask.sum(), ours[mask].var(correction=0)
    ratio = variance.sqrt() / (variance * tokens / (tokens - 1) + 1e-8).sqrt()
    close(theirs[mask], normalize_tokens(ours, mask, norm="batch")[mask] * ratio)


def test_a_reward_at_a_token_that_does_not_count_is_lost_in_verl() -> None:
    """So it goes to the last token that counts, as `gae` does."""
    mask, values, rewards = torch.tensor([[True, True, False]]), torch.zeros(1, 3), torch.zeros(1, 3)
    rewards[0, 2] = 1.0

    _, theirs = verl.compute_gae_advantage_return(rewards, values, mask.float(), 1.0, 1.0)
    _, ours = gae(torch.ones(1), values, mask, gamma=1.0, lam=1.0)

    assert theirs[mask].tolist() == [0, 0]
    assert ours[mask].tolist() == [1, 1]


@for_seeds
@for_aggregations
def test_value_loss_at_half_weight(aggregation: str, seed: int) -> None:
    """verl has the factor 0.5 in its function; ours is `critic.value_coef`."""
    batch = random_batch(seed)
    values, old_values = noise(seed, batch.logp), noise(seed, batch.logp) + noise(seed + 50, batch.logp, 0.4)
    returns = noise(seed + 100, batch.logp)
    weights = aggregation_weights(aggregation, mask=batch.mask, prompt_index=batch.prompt_index)

    theirs = value_and_gradient(
        lambda v: verl.compute_value_loss(
            v, returns, old_values, batch.mask.double(), 0.2, MODES[aggregation]
        )[0],
        values,
    )

    close(
        theirs,
        value_and_gradient(
            lambda v: 0.5 * aggregate(value_loss(v, old_values, returns, 0.2), batch.mask, weights), values
        ),
    )


@for_seeds
def test_entropy_of_logits(seed: int) -> None:
    batch, generator = random_batch(seed), torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(*batch.mask.shape, 11, generator=generator, dtype=torch.float64)
    tokens = torch.zeros(len(logits), TOKENS + 1, dtype=torch.long)
    weights = aggregation_weights("token", mask=batch.mask, prompt_index=batch.prompt_index)

    def ours(logits: Tensor) -> Tensor:
        _, entropy = logp_and_entropy(logits, tokens[:, 1:], temperature=1.0, entropy_has_gradient=True)
        return aggregate(entropy, batch.mask, weights)

    theirs = value_and_gradient(lambda x: verl.compute_entropy_loss(x, batch.mask.double()), logits)
    close(theirs, value_and_gradient(ours, logits))


def verl_weights(log_ratio: Tensor, mask: Tensor, threshold: float | str) -> Tensor:
    weights, _ = rollout_correction.compute_rollout_correction_weights(
        log_ratio, mask.double(), rollout_is="token", rollout_is_threshold=threshold
    )
    return weights


@for_seeds
@pytest.mark.parametrize("cap", [0.5, 2.0])
def test_truncated_importance_weights(cap: float, seed: int) -> None:
    batch = random_batch(seed)
    theirs = verl_weights(batch.logp - batch.behaviour_logp, batch.mask, cap)

    ours = importance_weights(batch.logp, batch.behaviour_logp, batch.mask, cap)

    close(theirs[batch.mask], ours[batch.mask])
    assert (theirs[~batch.mask] == 0).all()  # ours are 1 there; the mask of the loss drops both


CORRECTED = {  # our type and clip, verl's function and clip
    "ppo": ({"eps_low": 0.2, "eps_high": 0.2}, "vanilla", {"low": 0.2, "high": 0.2}),
    "dapo": ({"eps_low": 0.2, "eps_high": 0.26}, "vanilla", {"low": 0.2, "high": 0.26}),
    "cispo": ({"eps_max": 5.0}, "cispo", {"low": 1.0, "high": 4.0}),
    "reinforce": ({}, "reinforce", {"low": 0.2, "high": 0.2}),
}


@for_seeds
@for_aggregations
@pytest.mark.parametrize("type", CORRECTED)
def test_losses_with_the_truncated_correction(type: str, aggregation: str, seed: int) -> None:
    """The trainer's own old policy in the ratio, and min(old / generator, cap) as `rollout_is_weights`."""
    batch, (clip, function, verl_clip) = random_batch(seed), CORRECTED[type]
    generator_logp = batch.behaviour_logp - noise(seed, batch.logp, 0.7)
    weights = verl_weights(batch.behaviour_logp - generator_logp, batch.mask, CAP)
    settings = config(type, aggregation, importance_cap=CAP, **clip)

    assert_same(
        lambda logp: verl_loss(
            function, batch, logp, mode=MODES[aggregation], rollout_is_weights=weights, **verl_clip
        ),
        lambda logp: our_loss(
            settings, batch, logp, behaviour_logp=generator_logp, old_logp=batch.behaviour_logp
        ),
        batch,
    )


@for_seeds
@for_aggregations
def test_corrected_gspo_has_one_value_and_shares_its_gradient_out_by_the_weights_in_verl(
    aggregation: str, seed: int
) -> None:
    """Gradient at token t: s A w_t in verl, s A mean(w) here (that of s itself, as in TRL); equal sums over a row."""
    batch = random_batch(seed)
    generator_logp = batch.behaviour_logp - noise(seed, batch.logp, 0.7)
    weights = verl_weights(batch.behaviour_logp - generator_logp, batch.mask, CAP)
    settings = config("gspo", aggregation, importance_cap=CAP, eps_low=0.2, eps_high=0.2)

    value, gradient = value_and_gradient(
        lambda logp: verl_loss(
            "gspo", batch, logp, mode=MODES[aggregation], low=0.2, high=0.2, rollout_is_weights=weights
        ),
        batch.logp,
    )

    ours, our_gradient = value_and_gradient(
        lambda logp: our_loss(
            settings, batch, logp, behaviour_logp=generator_logp, old_logp=batch.behaviour_logp
        ),
        batch.logp,
    )
    mean = weights.sum(dim=1, keepdim=True) / batch.mask.sum(dim=1, keepdim=True).clamp(min=1)
    close(value, ours)
    close(gradient, torch.where(batch.mask, our_gradient * weights / mean, 0.0))
    assert (gradient - our_gradient).abs().max() > 1e-4


ICEPOP = config("icepop", eps_low=0.5, eps_high=4.0)
ICEPOP_BOUNDS = "0.5_5.0"


@for_seeds
@for_aggregations
def test_icepop_is_the_clipped_loss_at_the_old_policy_with_icepop_weights(
    aggregation: str, seed: int
) -> None:
    """`rollout_is_threshold` "lower_upper" before the first update: old = pi, so that the clipped ratio is 1."""
    batch = random_batch(seed, spread=1.2)
    weights = verl_weights(batch.logp - batch.behaviour_logp, batch.mask, ICEPOP_BOUNDS)
    settings = config("icepop", aggregation, eps_low=0.5, eps_high=4.0)

    assert_same(
        lambda logp: verl_loss(
            "vanilla",
            batch,
            logp,
            mode=MODES[aggregation],
            low=0.2,
            high=0.2,
            old_logp=batch.logp,
            rollout_is_weights=weights,
        ),
        lambda logp: our_loss(settings, batch, logp),
        batch,
    )
    assert (weights[batch.mask] == 0).any()


@for_seeds
def test_icepop_has_the_gradient_and_not_the_value_of_reinforce_with_icepop_weights(seed: int) -> None:
    """verl's bypass preset: -sg(rho) A log pi inside the bounds; ours: -rho A. One gradient, two values."""
    batch = random_batch(seed, spread=1.2)
    weights = verl_weights(batch.logp - batch.behaviour_logp, batch.mask, ICEPOP_BOUNDS)

    value, gradient = value_and_gradient(
        lambda logp: verl_loss(
            "reinforce", batch, logp, mode="token-mean", low=0.2, high=0.2, rollout_is_weights=weights
        ),
        batch.logp,
    )

    ours, our_gradient = value_and_gradient(lambda logp: our_loss(ICEPOP, batch, logp), batch.logp)
    close(gradient, our_gradient)
    assert (value - ours).abs() > 1e-3


@for_seeds
@for_aggregations
@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_the_whole_objective(kind: str, aggregation: str, seed: int) -> None:
    """Token advantages, truncated correction, KL, entropy bonus and value loss: verl's terms, as it adds them up."""
    batch, mode = random_batch(seed), MODES[aggregation]
    reference = batch.logp + noise(seed + 10, batch.logp, 0.5)
    generator_logp = batch.behaviour_logp - noise(seed, batch.logp, 0.7)
    advantages, returns, old_values = (noise(seed + 20 * n, batch.logp) for n in (1, 2, 3))
    recipe = a_recipe("ppo", aggregation, importance_cap=CAP, kl_estimate=kind)
    targets = Targets(
        mask=batch.mask,
        behaviour_logp=generator_logp,
        prompt_index=batch.prompt_index,
        weights=aggregation_weights(aggregation, mask=batch.mask, prompt_index=batch.prompt_index),
        advantages=advantages,
        old_logp=batch.behaviour_logp,
        reference_logp=reference,
        old_values=old_values,
        returns=returns,
    )

    def theirs(said: Tensor) -> Tensor:
        logp, entropy, values = said
        weights, mask = (
            verl_weights(batch.behaviour_logp - generator_logp, batch.mask, CAP),
            batch.mask.double(),
        )
        policy = verl_loss(
            "vanilla",
            batch,
            logp,
            mode=mode,
            low=0.2,
            high=0.2,
            advantages=advantages,
            rollout_is_weights=weights,
        )
        kl = verl.agg_loss(verl.kl_penalty(logp, reference, kind), mask, mode)
        bonus = verl.agg_loss(entropy, mask, mode)
        value, _ = verl.compute_value_loss(values, returns, old_values, mask, recipe.critic.eps_value, mode)
        coefficient = recipe.critic.value_coef / 0.5
        return policy - recipe.loss.entropy_coef * bonus + recipe.loss.kl_coef * kl + coefficient * value

    said = torch.stack([batch.logp, noise(seed + 80, batch.logp).square(), noise(seed + 90, batch.logp)])
    close(
        value_and_gradient(theirs, said),
        value_and_gradient(lambda said: objective(recipe, Prediction(*said), targets)[0], said),
    )
