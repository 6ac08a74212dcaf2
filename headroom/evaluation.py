"""The metrics of an evaluation on held-out prompts, with the standard error of its mean."""

import math
from collections.abc import Iterable
from typing import Any

from headroom.values import to_number

PassRates = float | Iterable[float]


def evaluation_metrics(
    pass_rate: PassRates, *, n_prompts: int | None = None, k: int = 1, stderr: float | None = None
) -> dict[str, int | float]:
    """eval/pass_rate, eval/pass_rate_stderr, eval/n_prompts and eval/k.

    pass_rate: the mean over `n_prompts` prompts of the share of `k` answers that passed, or that share of each prompt
    [n_prompts]. Of shares the standard error is their standard deviation (n - 1) over sqrt(n). Of a mean alone it is
    sqrt(p (1 - p) / n_prompts): the answers to a prompt may all be alike, so that more of them tell nothing, and no
    spread of shares in [0, 1] is larger. A known `stderr` goes before both. Raises ValueError, TypeError.
    """
    if (number := to_number(pass_rate)) is None:
        mean, count, spread = _of_shares(pass_rate, n_prompts)
    else:
        mean, count = _share("pass_rate", number), _count("n_prompts", n_prompts)
        spread = math.sqrt(mean * (1 - mean) / count)
    known = spread if stderr is None else to_number(stderr)
    if known is None or known < 0:
        raise ValueError(f"stderr must be a number >= 0, not {stderr!r}")
    return {
        "eval/pass_rate": mean,
        "eval/pass_rate_stderr": known,
        "eval/n_prompts": count,
        "eval/k": _count("k", k),
    }


def _of_shares(given: Any, n_prompts: int | None) -> tuple[float, int, float]:
    """Mean, number and standard error of one share a prompt."""
    if not (shares := [_share("pass_rate", to_number(each)) for each in given]):
        raise ValueError("pass_rate has no prompt")
    if n_prompts is not None and n_prompts != len(shares):
        raise ValueError(f"n_prompts is {n_prompts!r}, but pass_rate has {len(shares)} prompts")
    mean = math.fsum(shares) / len(shares)
    if len(shares) == 1:
        return mean, 1, math.sqrt(mean * (1 - mean))
    variance = math.fsum((each - mean) ** 2 for each in shares) / (len(shares) - 1)
    return mean, len(shares), math.sqrt(variance / len(shares))


def _share(name: str, number: int | float | None) -> float:
    if number is None or not 0 <= number <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {number!r}")
    return float(number)


def _count(name: str, given: Any) -> int:
    number = to_number(given)
    if number is None or number < 1 or number != int(number):
        raise ValueError(f"{name} must be a whole number of at least 1, not {given!r}")
    return int(number)
