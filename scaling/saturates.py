"""Whether a saturating curve describes evaluations at all, and how noisy they are."""

import math

import numpy as np

from scaling.curve import Array
from scaling.noise import scatter
from scaling.points import Points

FALLS = 3.0  # standard errors
JUMPS = 6.0  # times the noise, and the steps on its two sides
SIDE = 3  # evaluations before and after a jump


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
    third = len(y) // 3
    late, early = y[-third:].mean(), y[:third].mean()
    if early - late > FALLS * sd * math.sqrt(2.0 / third) and late < y.max() - FALLS * sd:
        return f"the pass rate falls, from {early:.3f} to {late:.3f}: no saturating curve describes that"
    return ""


def _jump(data: Points, sd: float) -> int | None:
    """Index of the first evaluation after a step that neither noise nor the slope on its two sides explains, and which
    stays; None without one."""
    if len(data.reward) < 2 * SIDE:
        return None
    y = np.lib.stride_tricks.sliding_window_view(data.reward, 2 * SIDE)  # [n - 2 SIDE + 1, before and after]
    before, after, steps = y[:, :SIDE], y[:, SIDE:], np.diff(y)
    slope = 0.5 * (before[:, -1] - before[:, 0] + after[:, -1] - after[:, 0]) / (SIDE - 1)
    step = after.mean(1) - before.mean(1) - SIDE * slope
    around = np.abs(np.delete(steps, SIDE - 1, axis=1)).max(1)
    jumps = np.flatnonzero(np.abs(step) > JUMPS * np.maximum(sd, around))
    return int(jumps[0]) + SIDE if len(jumps) else None
