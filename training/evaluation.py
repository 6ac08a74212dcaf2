"""Held-out pass rate: mean@k and pass@k with their standard errors, also for each part of a mixture and difficulty."""

import asyncio
import math
from collections.abc import Sequence

from training.rollouts import Group, Rollouts
from training.tasks import Prompt

CHUNK_PROMPTS = 64  # in one call of the generator
MAX_DIFFICULTIES = 12  # with a curve of their own


async def sampled(
    rollouts: Rollouts, prompts: Sequence[Prompt], k: int, temperature: float, key: str
) -> list[Group]:
    """`k` scored samples of each prompt; `key` and place alone say with which random numbers."""
    starts = range(0, len(prompts), CHUNK_PROMPTS)
    work = (
        rollouts.groups(prompts[start : start + CHUNK_PROMPTS], k, temperature, key=f"{key}/{start}")
        for start in starts
    )
    return [group for chunk in await asyncio.gather(*work) for group in chunk]


def pass_rate(groups: Sequence[Group]) -> tuple[float, float]:
    """(mean over prompts of the share of correct samples, its standard error).

    The samples of one prompt are not independent, so the error comes from the spread between prompts: it is that of an
    estimate for all prompts that could have been drawn. A run's curve, always over the same held-out prompts, has less
    noise than that: `sampling_error`.
    """
    return _mean_and_error([group.pass_rate for group in groups])


def sampling_error(groups: Sequence[Group]) -> float:
    """Standard error of the pass rate over these very prompts, were they sampled again.

    sqrt(sum of p (1 - p) / (k - 1)) / n for n prompts with k samples each, of which the share p is correct: the
    variances within the prompts. NaN where a prompt has one sample only.
    """
    if min(len(group.samples) for group in groups) < 2:
        return float("nan")
    variances = [g.pass_rate * (1 - g.pass_rate) / (len(g.samples) - 1) for g in groups]
    return math.sqrt(sum(variances)) / len(groups)


def pass_at_k(groups: Sequence[Group], k: int) -> tuple[float, float]:
    """(chance that one of `k` samples of a prompt is correct, its standard error), mean over prompts.

    Of n >= k samples with c correct: 1 - C(n - c, k) / C(n, k), the unbiased estimate of Chen et al.,
    arXiv 2107.03374, section 2.1. k = 1 is the pass rate; k = n the share of prompts with a correct sample.
    """
    return _mean_and_error([_at_k(len(g.samples), sum(s.correct for s in g.samples), k) for g in groups])


def _at_k(n: int, c: int, k: int) -> float:
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def by_part(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """The groups of each part of a mixture; empty for a task without parts."""
    parts: dict[str, list[Group]] = {}
    for group in groups:
        if group.prompt.part:
            parts.setdefault(group.prompt.part, []).append(group)
    return parts


def by_difficulty(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """The groups of each difficulty, easiest first, as `difficulty-3`; empty for a task that knows none.

    Where there are more than MAX_DIFFICULTIES, as many ranges with about equally many prompts: `difficulty-3-to-4.5`.
    """
    known = [(group.prompt.difficulty, group) for group in groups if group.prompt.difficulty is not None]
    known.sort(key=lambda pair: pair[0])
    first: dict[float, int] = {}  # place of the first prompt of each difficulty
    for place, (difficulty, _) in enumerate(known):
        first.setdefault(difficulty, place)
    is_few = len(first) <= MAX_DIFFICULTIES
    bins: dict[int, list[tuple[float, Group]]] = {}
    for pair in known:  # equal difficulties stay together
        index = first[pair[0]]
        bins.setdefault(index if is_few else index * MAX_DIFFICULTIES // len(known), []).append(pair)
    return {_span(own[0][0], own[-1][0]): [group for _, group in own] for own in bins.values()}


def _span(low: float, high: float) -> str:
    return f"difficulty-{low:g}" if low == high else f"difficulty-{low:g}-to-{high:g}"


def _mean_and_error(rates: Sequence[float]) -> tuple[float, float]:
    mean = sum(rates) / len(rates)
    if len(rates) < 2:
        return mean, float("nan")
    variance = sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1)
    return mean, math.sqrt(variance / len(rates))


def evaluation_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Metrics of an evaluation record; `eval/pass_rate` is mean@k, `eval/pass_at_k` is for the k of `eval/k`.

    `eval/pass_rate_stderr` is from the spread between prompts, `eval/pass_rate_sampling_error` the noise over these.
    """
    mean, stderr = pass_rate(groups)
    samples = [sample for group in groups for sample in group.samples]
    metrics = {
        "eval/pass_rate": mean,
        "eval/pass_rate_stderr": stderr,
        "eval/n_prompts": float(len(groups)),
        "eval/k": float(len(groups[0].samples)),
        "eval/response_length": sum(len(sample.response) for sample in samples) / len(samples),
        "eval/truncation_rate": sum(not sample.finished for sample in samples) / len(samples),
        "eval/verifier_failure_rate": sum(bool(sample.failure) for sample in samples) / len(samples),
    }
    samples_each = len(groups[0].samples)
    if samples_each > 1:
        metrics["eval/pass_rate_sampling_error"] = sampling_error(groups)
        metrics["eval/pass_at_k"], metrics["eval/pass_at_k_stderr"] = pass_at_k(groups, samples_each)
    for k in (2**power for power in range(1, samples_each.bit_length()) if 2**power < samples_each):
        metrics[f"eval/pass_at_{k}"], metrics[f"eval/pass_at_{k}_stderr"] = pass_at_k(groups, k)
    for part, own in (by_part(groups) | by_difficulty(groups)).items():
        metrics[f"eval/{part}/pass_rate"], error = pass_rate(own)
        if len(own) > 1:
            metrics[f"eval/{part}/pass_rate_stderr"] = error
        metrics[f"eval/{part}/n_prompts"] = float(len(own))
    return metrics
