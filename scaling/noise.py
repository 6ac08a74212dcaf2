"""The noise of one evaluation, its autocorrelation, and what they do to the width of an interval.

Evaluations repeat the same prompts on a slowly changing policy, so their errors are correlated; ignoring an AR(1)
of 0.5 lets 90 % intervals cover as little as 60 %. The curve takes up part of the errors, so both the variance and the
lag-1 correlation of the residuals are too small; both are corrected by their exact expectations under AR(1).

Whether a saturating curve describes evaluations at all, and how noisy they are.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtr, ndtri, stdtrit

from scaling.curve import Array
from scaling.points import Points

MAX_RHO = 0.9
DOF_TO_TRUST_RHO = 20  # below it the lag-1 correlation found is shrunk towards none, in proportion
KEPT = 0.9  # of the squared second differences: the largest come of bends and jumps
MAX_N_EXACT = 400  # the expectations need n x n matrices; past this size the bias is negligible
SIDE = 3  # evaluations before and after a jump
FALLS = 3.0  # standard errors
DIPS = 6.5  # standard errors; of the corpus' runs that end well none dips by more than 6.2
MEDIANS = ((1, 1.0), (SIDE, 0.67))  # evaluations, and the standard deviation of their median
MIN_FOR_DIPS = 8  # evaluations, which fewer tell poorly from noise
JUMPS = 6.0  # times the noise, and the steps on its two sides
MEDIAN_DIFFERENCE = 1.652  # median size of second differences of independent normal errors of unit variance


@dataclass(frozen=True)
class Noise:
    """`variance` of a residual of weight 1; `rho` lag-1 correlation; `inflation` of the variance of what is fitted;
    `dof` effective degrees of freedom of `variance`."""

    variance: float
    rho: float
    inflation: float
    dof: float

    def allowance(self, level: float, *, one_sided: bool = False) -> float:
        """How far the sum of squares may rise above its minimum inside the interval: t**2 * variance * inflation."""
        return self.quantile(level, one_sided=one_sided) ** 2 * self.variance * self.inflation

    def quantile(self, level: float, *, one_sided: bool = False) -> float:
        """Student t quantile of an interval of `level`."""
        return float(stdtrit(self.dof, level if one_sided else 0.5 + 0.5 * level))


def sampling_stderr(rate: ArrayLike, prompts: int, generations: int = 1) -> Array:
    """Standard errors [n] of pass rates [n] measured on the same `prompts`, each with `generations` samples.

    sqrt(R (1 - R) / (prompts * generations)): what drawing the samples adds. It is an upper bound, reached where all
    prompts are equally hard; that other prompts would have other rates moves every evaluation alike and is no noise of
    the curve. A rate within one sample of 0 or 1 gets the error of one sample.
    Raises ValueError for less than one prompt or generation.
    """
    if prompts < 1 or generations < 1:
        raise ValueError("a pass rate needs at least one prompt and one generation")
    samples = prompts * generations
    r = np.clip(np.asarray(rate, dtype=float), 1.0 / (samples + 1), samples / (samples + 1))
    return np.sqrt(r * (1.0 - r) / samples)


def scatter(values: Array, rho: float = 0.0) -> float:
    """Variance of the errors of values [n] (n >= 3, in order) around whatever smooth line lies under them.

    From the mean of all but the largest second differences squared, of which a straight line has none. What is left
    out is allowed for as errors that are normal: the square of a standard normal below q, P(below) = p, has the mean
    P(chi-square of 3 degrees of freedom < q) / p. Under AR(1) the expected square of a second difference is
    (6 - 8 rho + 2 rho**2) variances.
    """
    squares = np.sort(np.diff(values, 2) ** 2)
    kept = math.ceil(KEPT * len(squares))
    share = kept / len(squares)
    mean = 1.0 if share == 1.0 else float(chdtr(3, ndtri(0.5 + 0.5 * share) ** 2)) / share
    return float(squares[:kept].mean()) / mean / (6.0 - 8.0 * rho + 2.0 * rho**2)


def estimate(residuals: Array, design: Array, *, n_chain: int, known: bool, floor: float) -> Noise:
    """Noise from standardised residuals [n] and the design [n, p] (columns of the free parameters).

    The last `n_chain` rows follow each other in time; the others (evaluations before the first update) are
    independent. `known`: the weights are 1 / stderr**2, so the variance is 1 unless the scatter is larger.
    `floor`: smallest standard deviation to believe (exact data have no noise to measure).
    """
    n, p = design.shape
    dof = max(n - p, 1)
    q = _basis(design)
    rho = _shrunk(_lag1(residuals, q, n_chain), n_chain, dof)
    spread, dof = _effective_dof(q, rho, n, n_chain)
    variance = float(residuals @ residuals) / spread
    if known:
        variance = max(variance, 1.0)
        dof = max(dof, 1e6) if variance == 1.0 else dof
    return Noise(max(variance, floor**2), rho, (1.0 + rho) / (1.0 - rho), dof)


def _shrunk(rho: float, n: int, dof: int) -> float:
    """The estimate drawn towards zero (a garrote of half strength): to none within 0.7 of its standard errors
    1 / sqrt(n), hardly when far beyond; and in proportion where few degrees of freedom measure it. Cut off at zero, it
    would else widen the intervals of independent errors."""
    if rho <= 0.0:
        return 0.0
    return rho * max(0.0, 1.0 - 0.5 / (n * rho**2)) * min(1.0, dof / DOF_TO_TRUST_RHO)


def _basis(design: Array) -> Array:
    """Orthonormal basis of the columns that matter."""
    u, s, _ = np.linalg.svd(design, full_matrices=False)
    return u[:, s > 1e-9 * max(s[0], 1e-300)] if len(s) else u


def _lag1(residuals: Array, q: Array, n_chain: int) -> float:
    """Lag-1 correlation: the rho at which the residuals' expected ratio equals the one seen; 0 if negative."""
    n = len(residuals)
    chain = residuals[n - n_chain :]
    total = float(residuals @ residuals)
    if total <= 0.0:
        return 0.0
    seen = float(chain[1:] @ chain[:-1]) / total
    if n > MAX_N_EXACT:
        return min(max(seen, 0.0), MAX_RHO)
    candidates = np.linspace(0.0, MAX_RHO, 10)
    expected = np.array([_expected_lag1(q, rho, n, n_chain) for rho in candidates])
    return float(np.interp(seen, np.maximum.accumulate(expected), candidates))


def _correlation(rho: float, n: int, n_chain: int) -> Array:
    """AR(1) correlation matrix [n, n]; the first n - n_chain rows are independent."""
    matrix = np.eye(n)
    lags = np.abs(np.subtract.outer(np.arange(n_chain), np.arange(n_chain)))
    matrix[n - n_chain :, n - n_chain :] = (rho ** np.arange(n_chain))[lags]
    return matrix


def _expected_lag1(q: Array, rho: float, n: int, n_chain: int) -> float:
    """E[sum r_t r_(t+1)] / E[sum r_t**2] for residuals r = (I - QQ') e, e of AR(1)."""
    sigma = _correlation(rho, n, n_chain)
    reduced = sigma - q @ (q.T @ sigma)
    covariance = reduced - (reduced @ q) @ q.T
    first = n - n_chain
    return float(np.trace(covariance[first:, first:], offset=1)) / float(np.trace(covariance))


def _effective_dof(q: Array, rho: float, n: int, n_chain: int) -> tuple[float, float]:
    """(E[SSE] / variance, Satterthwaite's degrees of freedom) of the residual sum of squares."""
    plain = float(max(n - q.shape[1], 1))
    if rho == 0.0 or n > MAX_N_EXACT:
        shrink = (1.0 + rho**2) / (1.0 - rho**2)
        return plain, max(plain / shrink, 1.0)
    sigma = _correlation(rho, n, n_chain)
    reduced = sigma - q @ (q.T @ sigma)
    covariance = reduced - (reduced @ q) @ q.T
    spread = float(np.trace(covariance))
    return spread, max(spread**2 / float((covariance**2).sum()), 1.0)


def noise(data: Points) -> Array:
    """Variances [n] of the evaluations: as given, where they are and the scatter is not larger, else their scatter."""
    found = max(scatter(data.reward), 1e-6)
    if data.stderr is None:
        return np.full(len(data.reward), found)
    given = data.stderr**2
    return given * max(1.0, found / float(given.mean()))


def problem(data: Points) -> str:
    """Why no saturating curve describes the evaluations, or nothing."""
    y = data.reward
    if np.ptp(data.compute) == 0.0:
        return f"all evaluations lie at the compute {data.compute[0]:g}"
    if np.ptp(y) == 0.0:
        return f"all evaluations have the pass rate {y[0]:g}: nothing shows when, or whether, it rises"
    sd = math.sqrt(float(noise(data).mean()))
    if (jump := _jump(data, sd)) is not None:
        return (
            f"the pass rate jumps from {y[jump - 1]:.3f} to {y[jump]:.3f} at compute {data.compute[jump]:g}: "
            "two curves, of which only the later can be forecast, by a window that begins there"
        )
    if (fall := _fall(y, sd)) is not None:
        return f"the pass rate falls, from {fall[0]:.3f} to {fall[1]:.3f}: no saturating curve describes that"
    return ""


def _fall(y: Array, sd: float) -> tuple[float, float] | None:
    """(before, after) where the last third lies below the first; and where the last evaluation, or the median of the
    last SIDE, lies further below the best SIDE in a row before than in runs that go on well; None without a fall."""
    third = len(y) // 3
    early, late = y[:third].mean(), y[-third:].mean()
    if early - late > FALLS * sd * math.sqrt(2.0 / third) and late < y.max() - FALLS * sd:
        return early, late
    means = np.convolve(y, np.ones(SIDE) / SIDE, "valid")
    for last, error in MEDIANS if len(y) >= MIN_FOR_DIPS else ():
        best, now = float(means[: len(means) - last].max()), float(np.median(y[-last:]))
        if best - now > DIPS * error * sd:
            return best, now
    return None


def _jump(data: Points, sd: float) -> int | None:
    """Index of the first evaluation after a step that neither noise nor the slope on its two sides explains, and which
    stays; None without one."""
    if len(data.reward) < 2 * SIDE:
        return None
    usual = float(np.median(np.abs(np.diff(data.reward, 2)))) / MEDIAN_DIFFERENCE
    sd = min(sd, max(usual, 0.5 * sd))  # of few evaluations a jump itself makes the noise look larger
    y = np.lib.stride_tricks.sliding_window_view(data.reward, 2 * SIDE)  # [n - 2 SIDE + 1, before and after]
    before, after, steps = y[:, :SIDE], y[:, SIDE:], np.diff(y)
    slope = 0.5 * (before[:, -1] - before[:, 0] + after[:, -1] - after[:, 0]) / (SIDE - 1)
    step = after.mean(1) - before.mean(1) - SIDE * slope
    around = np.abs(np.delete(steps, SIDE - 1, axis=1)).max(1)
    jumps = np.flatnonzero(np.abs(step) > JUMPS * np.maximum(sd, around))
    return int(jumps[0]) + SIDE if len(jumps) else None
