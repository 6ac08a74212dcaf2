"""Was the prediction right? Later points against the curve and band of a fit that has not seen them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from scaling.fitting import fit
from scaling.models import Fit
from scaling.points import check_pairs


@dataclass(frozen=True)
class Forecast:
    """Score of n later points. mean_error: mean of (came - predicted); coverage: share inside the band for a new
    evaluation, None without points, as the two errors are."""

    n: int
    inside: int
    mean_error: float | None
    rmse: float | None
    coverage: float | None
    level: float


def score(fitted: Fit, compute: ArrayLike, reward: ArrayLike, *, level: float | None = None) -> Forecast:
    """Score later points [n] (compute > 0) against `fitted`. Raises InputError for unusable points,
    ValueError for a failed fit."""
    c, r = check_pairs(compute, reward, bounded=False)
    level = fitted.level if level is None else level
    if not len(c):
        return Forecast(0, 0, None, None, None, level)
    error = r - fitted.predict(c)
    lo, hi = fitted.predict_interval(c, level, kind="new")
    inside = int(((r >= lo) & (r <= hi)).sum())
    rmse = float(np.sqrt((error**2).mean()))
    return Forecast(len(c), inside, float(error.mean()), rmse, inside / len(c), level)


def hold_out(compute: ArrayLike, reward: ArrayLike, cutoff: float, **options) -> tuple[Fit, Forecast]:
    """Fit the points up to `cutoff` (within `window`, if given), score the ones after it.

    `options` are those of `scaling.fit`; the paper's protocol is a cutoff at half of the compute.
    """
    lo, hi = options.pop("window", None) or (None, None)
    fitted = fit(compute, reward, window=(lo, cutoff if hi is None else min(hi, cutoff)), **options)
    c, r = np.asarray(compute, dtype=float), np.asarray(reward, dtype=float)
    return fitted, score(fitted, c[c > cutoff], r[c > cutoff])
