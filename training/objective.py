"""What one update minimises: the policy loss, and where the recipe asks for them KL, entropy and value terms.

All terms have the aggregation weights of the whole batch, so that any split into micro-batches, over any number of
ranks, adds up to the same loss and the same gradients.
"""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from training.losses import aggregate, kl_penalty, policy_loss, value_loss
from training.schema import Recipe

_FRESH_SHARE, _FRESH_GAP = (
    "fresh_share",
    "fresh_gap",
)  # means over all tokens, of which `with_fresh_gap` makes one


@dataclass(frozen=True)
class Targets:
    """What a batch of N rows and L tokens is trained towards; made once, before its first update.

    mask, behaviour_logp: [N, L - 1]; prompt_index, weights: [N]; advantages: [N] or [N, L - 1]. The others are
    [N, L - 1], or None where the recipe does without: old_logp and old_values of this trainer before the step,
    reference_logp of the model that the run started from, returns of GAE. fresh: tokens that the weights of now chose.
    """

    mask: Tensor
    behaviour_logp: Tensor
    prompt_index: Tensor
    weights: Tensor
    advantages: Tensor
    old_logp: Tensor | None = None
    reference_logp: Tensor | None = None
    old_values: Tensor | None = None
    returns: Tensor | None = None
    fresh: Tensor | None = None

    def of(self, rows: Any, width: int, device: str) -> "Targets":
        """The part of these rows, [rows, width] where there are columns."""

        def part(value: Tensor | None) -> Tensor | None:
            if value is None:
                return None
            return (value[rows] if value.dim() == 1 else value[rows, :width]).to(device)

        parts: dict[str, Any] = {field.name: part(getattr(self, field.name)) for field in fields(self)}
        return Targets(**parts)


@dataclass(frozen=True)
class Prediction:
    """What the networks say of a micro-batch, [N, T] each; values is None without a critic."""

    logp: Tensor
    entropy: Tensor
    values: Tensor | None = None


def objective(recipe: Recipe, said: Prediction, targets: Targets) -> tuple[Tensor, dict[str, float]]:
    """(loss to be minimised, metrics of its tokens: means over tokens, extremes for names ending in _max or _min).

    policy loss + kl_coef KL - entropy_coef H + value_coef value loss, each aggregated like the policy loss.
    """
    loss, mask = recipe.loss, targets.mask
    old_logp = said.logp.detach() if targets.old_logp is None else targets.old_logp
    output = policy_loss(
        loss,
        logp=said.logp,
        behaviour_logp=targets.behaviour_logp,
        advantages=targets.advantages,
        mask=mask,
        prompt_index=targets.prompt_index,
        weights=targets.weights,
        old_logp=old_logp if loss.old_policy == "trainer" else None,
    )
    total, metrics = output.loss, dict(output.metrics)
    metrics["entropy"] = _mean(said.entropy, mask)
    if targets.fresh is not None:
        gap = (said.logp.detach() - targets.behaviour_logp).abs() * targets.fresh
        metrics[_FRESH_SHARE] = _mean(targets.fresh, mask)
        metrics[_FRESH_GAP] = _mean(gap, mask)
        metrics["mismatch_fresh_logp_max"] = gap.max().item() if gap.numel() else 0.0
    if loss.entropy_coef:
        total = total - loss.entropy_coef * aggregate(said.entropy, mask, targets.weights)
    if targets.reference_logp is not None:
        policy, reference = (torch.where(mask, x, 0.0) for x in (said.logp, targets.reference_logp))
        penalty = kl_penalty(policy, reference, loss.kl_estimate)
        total = total + loss.kl_coef * aggregate(penalty, mask, targets.weights)
        metrics["kl_reference"] = _mean(kl_penalty(policy.detach(), reference, "k3"), mask)
    if said.values is not None and targets.returns is not None and targets.old_values is not None:
        seen = (said.values, targets.old_values, targets.returns)
        values, old_values, returns = (torch.where(mask, x, 0.0) for x in seen)
        errors = value_loss(values, old_values, returns, recipe.critic.eps_value)
        total = total + recipe.critic.value_coef * aggregate(errors, mask, targets.weights)
        metrics["value_loss"] = _mean(errors, mask)
    return total, metrics


def row_gaps(said: Prediction, targets: Targets) -> list[float]:
    """Mean |log-probability here - generator's| of each row's counted tokens; 0 of a row without any."""
    gap = (said.logp.detach() - targets.behaviour_logp).abs() * targets.mask
    means: list[float] = (gap.sum(1) / targets.mask.sum(1).clamp(min=1)).tolist()
    return means


def with_fresh_gap(metrics: dict[str, float]) -> dict[str, float]:
    """Metrics of a whole batch, with the mean and the largest |log-probability here - generator's| of its fresh tokens;
    without both where it has none."""
    share, gap = metrics.pop(_FRESH_SHARE, 0.0), metrics.pop(_FRESH_GAP, 0.0)
    if share:
        return metrics | {"mismatch_fresh_logp_mean": gap / share}
    metrics.pop("mismatch_fresh_logp_max", None)
    return metrics


def _mean(token_values: Tensor, mask: Tensor) -> float:
    return token_values.detach()[mask].double().mean().item() if mask.any() else 0.0
