"""Sampling without a random state: token `position` of the sequence with `seed` always gets the same uniform number.

So what a request gives depends neither on what runs beside it nor on the order in which requests come.
"""

import numpy as np
import torch
from torch import Tensor

_UINT64 = np.uint64
_BITS = (
    23  # of a uniform number: the largest, 1 - 2**-23, times a float32 sum still rounds to less than the sum
)


def uniforms(seeds: np.ndarray, first: np.ndarray, count: int) -> np.ndarray:
    """[N, count] float32 in [0, 1): of positions first[i] ... first[i] + count - 1 of the sequence seeds[i]."""
    positions = first.astype(_UINT64)[:, None] + np.arange(count, dtype=_UINT64)
    start = _splitmix64(seeds.astype(_UINT64))[:, None]
    return (_splitmix64(start ^ _splitmix64(positions)) >> _UINT64(64 - _BITS)).astype(np.float32) / 2**_BITS


def _splitmix64(x: np.ndarray) -> np.ndarray:
    """Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): one step, from state x."""
    x = x + _UINT64(0x9E3779B97F4A7C15)  # unsigned integers wrap around
    x = (x ^ (x >> _UINT64(30))) * _UINT64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> _UINT64(27))) * _UINT64(0x94D049BB133111EB)
    return x ^ (x >> _UINT64(31))


def choose(logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """(token [N], its log-probability [N]) by the inverse of the distribution function. logits: [N, V] float32."""
    normalizer = logits.logsumexp(dim=-1, keepdim=True)
    cumulative = (logits - normalizer).exp_().cumsum(dim=-1)
    threshold = uniform.unsqueeze(1) * cumulative[:, -1:]
    # The first that is larger, so never one of weight 0. None is where a logit is NaN; then so is the logp.
    chosen = torch.searchsorted(cumulative, threshold, right=True).clamp_(max=logits.shape[1] - 1)
    return chosen.squeeze(1), (logits.gather(1, chosen) - normalizer).squeeze(1)
