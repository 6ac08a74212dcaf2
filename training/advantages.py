"""Group advantages and the zero-variance filter (arXiv 2510.13786, section 3.2)."""

import torch
from torch import Tensor


def group_advantages(rewards: Tensor, prompt_index: Tensor, *, norm: str) -> Tensor:
    """Advantage of each sample, [N]: reward minus the mean of its prompt, then divided as `norm` says.

    rewards: [N]; prompt_index: [N] int64. norm: "batch" divides by the standard deviation of all advantages of the
    batch, "prompt" by that of the rewards of the sample's prompt, "none" not (Dr. GRPO). Population standard
    deviation; where it is 0, the advantages are 0. They are 0 too where a prompt's rewards are all equal, whatever
    their mean rounds to. Raises ValueError for another norm.
    """
    rewards = torch.as_tensor(rewards, dtype=torch.float32)
    position, counts = _groups(torch.as_tensor(prompt_index))
    # Ten rewards of 0.7 have another mean in float32, and dividing by its error would make advantages of +-1.
    centred = torch.where(
        _varies(rewards, position, counts), rewards - _group_mean(rewards, position, counts), 0.0
    )
    if norm == "none":
        return centred
    if norm == "batch":
        std = centred.std(correction=0).expand_as(centred) if len(centred) else centred
    elif norm == "prompt":
        std = _group_mean(centred.square(), position, counts).sqrt()
    else:
        raise ValueError(f"no advantage norm {norm!r}; there are: batch, prompt, none")
    return torch.where(std > 0, centred / std.where(std > 0, torch.ones_like(std)), 0.0)


def has_variance(rewards: Tensor, prompt_index: Tensor) -> Tensor:
    """[N] bool: whether the sample's prompt has generations of different reward. The others teach nothing."""
    rewards = torch.as_tensor(rewards, dtype=torch.float32)
    position, counts = _groups(torch.as_tensor(prompt_index))
    return _varies(rewards, position, counts)


def _groups(prompt_index: Tensor) -> tuple[Tensor, Tensor]:
    """(position of each sample's group [N], samples of each group [P])."""
    _, position, counts = prompt_index.unique(return_inverse=True, return_counts=True)
    return position, counts


def _varies(values: Tensor, position: Tensor, counts: Tensor) -> Tensor:
    """[N] bool: whether the sample's group has different values."""
    low = torch.full((len(counts),), float("inf")).scatter_reduce(0, position, values, "amin")
    high = torch.full((len(counts),), -float("inf")).scatter_reduce(0, position, values, "amax")
    return (high > low)[position]


def _group_mean(values: Tensor, position: Tensor, counts: Tensor) -> Tensor:
    """Mean of each sample's group, [N]."""
    sums = torch.zeros(len(counts), dtype=values.dtype).index_add_(0, position, values)
    return (sums / counts)[position]
