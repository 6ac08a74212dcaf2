"""What the validation programs share: simulated evaluations, counted outcomes with their errors, Markdown tables."""

import argparse
import math
import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import bdtr, expit, ndtri

from benchmarks.table1 import PublishedFit, published_fits
from scaling.curve import Array, curve
from scaling.simulate import noise

R0 = 0.1
POINTS = 60
PROMPTS = 1000  # arXiv 2510.13786, 2.1: 1,000 held-out prompts, 16 generations each
GENERATIONS = 16
PROMPT_SPREAD = (
    2.5  # standard deviation of the prompts' log odds: most are nearly always or nearly never solved
)
AR1_SD, AR1_RHO = 0.01, 0.5
FALLING_SD = (0.02, 0.005)  # at the first and at the last evaluation
WHITE_SD = 0.005

NOISES = {
    "binomial": f"{PROMPTS:,} prompts x {GENERATIONS}, log odds of prompts with sd {PROMPT_SPREAD}",
    "ar1": f"sd {AR1_SD}, AR(1) with rho {AR1_RHO}",
    "heteroscedastic": f"sd falling from {FALLING_SD[0]} to {FALLING_SD[1]} over the run",
    "white": f"sd {WHITE_SD}, independent",
}


@dataclass(frozen=True)
class Trial:
    """One simulated run: row of Table 1, kind of noise, observed up to `times` its C_mid, seed of its noise.

    The run's own curve: `lift` is added to the row's ceiling, B and C_mid are multiplied by `steeper` and `later`.
    """

    row: int
    noise: str
    times: float
    seed: tuple[int, ...]
    lift: float = 0.0
    steeper: float = 1.0
    later: float = 1.0

    @property
    def published(self) -> PublishedFit:
        return published_fits()[self.row % len(published_fits())]

    def truth(self, compute: Array | float) -> Array:
        """The true curve at `compute` in GPU-hours."""
        row = self.published
        return curve(
            compute, r0=R0, a=row.a + self.lift, b=row.b * self.steeper, c_mid=row.c_mid * self.later
        )

    def points(self, n: int = POINTS) -> tuple[Array, Array]:
        """n evaluations at even distances: compute [n], pass rates [n]."""
        last = self.times * self.published.c_mid
        compute = np.linspace(last / n, last, n)
        return compute, evaluate(self.truth(compute), self.noise, np.random.default_rng(self.seed))


def trials(count: int, kind: str, times: float, seed: tuple[int, ...]) -> list[Trial]:
    """`count` runs, the rows of Table 1 in turn."""
    return [Trial(k, kind, times, (*seed, k)) for k in range(count)]


def evaluate(mean: Array, kind: str, rng: np.random.Generator) -> Array:
    """Measured pass rates [n] of a policy whose true ones are `mean` [n], with one of NOISES."""
    n = len(mean)
    if kind == "binomial":
        return rng.binomial(GENERATIONS, prompt_rates(mean)).sum(axis=1) / (PROMPTS * GENERATIONS)
    if kind == "ar1":
        error = noise(n, AR1_SD, rng, rho=AR1_RHO)
    elif kind == "heteroscedastic":
        error = rng.normal(0.0, 1.0, n) * np.linspace(*FALLING_SD, n)
    else:
        error = rng.normal(0.0, WHITE_SD, n)
    return np.clip(mean + error, 0.0, 1.0)


def prompt_rates(mean: Array) -> Array:
    """Pass rates [n, PROMPTS] of the held-out prompts, whose mean over the prompts is `mean` [n].

    The set is fixed: prompt i is always as hard compared with the others, so its hardness adds nothing to the noise.
    """
    hardness, centres, means = _prompts()
    centre = np.interp(mean, means, centres)
    return expit(centre[:, None] + hardness)


@cache
def _prompts() -> tuple[Array, Array, Array]:
    hardness = PROMPT_SPREAD * ndtri((np.arange(PROMPTS) + 0.5) / PROMPTS)
    centres = np.linspace(-14.0, 14.0, 1401)
    return hardness, centres, expit(centres[:, None] + hardness).mean(axis=1)


def rate(outcomes: Iterable[bool]) -> str:
    """Share of true outcomes, its binomial standard error and the number of outcomes: "93.0 % ± 1.8 (N 200)".

    With none or all true that error would be zero; then the 90 % bound of the share is given: "0.0 %, < 1.1 (N 200)".
    """
    seen = list(outcomes)
    n, hits = len(seen), sum(seen)
    if n == 0:
        return "- (N 0)"
    share = hits / n
    bound = 100 * (1 - 0.1 ** (1 / n))
    if hits == 0:
        return f"0.0 %, < {bound:.1f} (N {n})"
    if hits == n:
        return f"100.0 %, > {100 - bound:.1f} (N {n})"
    return f"{100 * share:.1f} % ± {100 * math.sqrt(share * (1 - share) / n):.1f} (N {n})"


def quantile(values: Sequence[float], q: float, level: float = 0.9) -> str:
    """The q quantile with its distribution-free interval from order statistics, and N; "open" where N is too small."""
    order, n = np.sort(values), len(values)
    if n == 0:
        return "- (N 0)"
    below = bdtr(np.arange(-1, n), n, q)  # P(at most k of n lie below the quantile), k = -1, ..., n - 1
    lo = np.flatnonzero(below <= 0.5 - 0.5 * level)
    hi = np.flatnonzero(below >= 0.5 + 0.5 * level)
    ends = [
        f"{order[lo[-1] - 1]:.4f}" if len(lo) and lo[-1] > 0 else "open",
        f"{order[hi[0] - 1]:.4f}" if len(hi) and 0 < hi[0] <= n else "open",
    ]
    return f"{np.quantile(order, q):.4f} ({' to '.join(ends)}; N {n})"


def run_all(work: Callable[[Any], Any], items: Sequence[Any], jobs: int) -> list[Any]:
    """`work` of every item in order, over `jobs` processes; one job needs none."""
    if jobs <= 1:
        return [work(item) for item in items]
    with multiprocessing.Pool(jobs) as processes:
        return processes.map(work, items, chunksize=max(1, len(items) // (8 * jobs)))


def arguments(doc: str, curves: int) -> argparse.ArgumentParser:
    """--curves, --seed and --jobs."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--curves", type=int, default=curves, metavar="N", help=f"default: {curves}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    return parser
