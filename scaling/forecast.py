"""Was the prediction right? Later points against the curve and band of a fit that has not seen them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from scaling.curve import Array
from scaling.fitting import fit
from scaling.models import Fit
from scaling.points import MIN_POINTS, InputError, check_pairs

FRACTIONS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


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


@dataclass(frozen=True)
class Cutoff:
    """The forecast of the last evaluation from the points up to `cutoff`, `fraction` of the last compute.

    came: that evaluation; predicted, interval: the curve there and where one evaluation was expected to lie (of
    `level`); error: came - predicted; inside: whether it came inside. All None where there was no fit. coverage: share
    of all `n_later` later points inside the band. status, message: of the fit.
    """

    fraction: float
    cutoff: float
    n: int
    status: str
    message: str
    compute: float
    came: float
    predicted: float | None
    interval: tuple[float, float] | None
    error: float | None
    inside: bool | None
    n_later: int
    coverage: float | None
    level: float


def rolling(
    compute: ArrayLike, reward: ArrayLike, fractions: Sequence[float] = FRACTIONS, **options
) -> tuple[Cutoff, ...]:
    """What would have been forecast at each fraction (in (0, 1)) of the compute: one fit a cutoff, in rising order.

    `options` are those of `scaling.fit`; points outside a `window` are left out altogether. A cutoff with too few
    points is there with status "failed". Raises InputError for data or options that cannot be used.
    """
    if not fractions or not all(0.0 < fraction < 1.0 for fraction in fractions):
        raise InputError("the fractions of the compute are not all between 0 and 1")
    whole = fit(compute, reward, **options)  # refuses what cannot be used, before any cutoff is blamed
    assert whole.data is not None
    last = float(whole.data.compute[-1])
    return tuple(
        _from(
            whole,
            np.asarray(compute, dtype=float),
            np.asarray(reward, dtype=float),
            share,
            share * last,
            options,
        )
        for share in sorted(set(fractions))
    )


def sentence(row: Cutoff) -> str:
    """In words: "from 50 % of the compute, predicted 0.593 [0.584, 0.602], came 0.596"."""
    start, came = f"from {100 * row.fraction:.3g} % of the compute", f"came {row.came:.3f}"
    if row.predicted is None or row.interval is None:
        return f"{start}, no forecast ({row.message}), {came}"
    predicted = f"predicted {row.predicted:.3f} [{row.interval[0]:.3f}, {row.interval[1]:.3f}]"
    known = "" if row.status == "ok" else " (the ceiling was not identified)"
    return f"{start}, {predicted}{known}, {came}"


def _from(whole: Fit, c: Array, r: Array, fraction: float, cutoff: float, options: dict) -> Cutoff:
    data = whole.data
    assert data is not None
    n, later = int((data.compute <= cutoff).sum()), data.compute > cutoff
    at, came = float(data.compute[-1]), float(data.reward[-1])
    few = f"only {n} points: at least {MIN_POINTS} are needed"
    nothing = Cutoff(
        fraction, cutoff, n, "failed", few, at, came, None, None, None, None, int(later.sum()), None, whole.level
    )  # fmt: skip
    if n < MIN_POINTS:
        return nothing
    early = fit(c, r, **{**options, "window": (whole.window[0], cutoff)})
    if early.params is None:
        return replace(nothing, message=early.message)
    lo, hi = (float(end) for end in early.predict_interval(at, kind="new"))
    predicted = float(early.predict(at))
    return replace(
        nothing,
        status=early.status,
        message=early.message,
        predicted=predicted,
        interval=(lo, hi),
        error=came - predicted,
        inside=lo <= came <= hi,
        coverage=score(early, data.compute[later], data.reward[later]).coverage,
    )
