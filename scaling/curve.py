"""The curves themselves: pure functions of compute, vectorised, nothing is written to their inputs.

Every form is `R = R0 + (A - R0) * share(log C - log C_mid; B)` with a share of the gain that is 1/2 at C_mid
and tends to 1, so A is always the ceiling and C_mid always the compute at half of the gain:

| form     | share of the gain                    | source (arXiv 2510.13786)                                    |
|----------|--------------------------------------|--------------------------------------------------------------|
| sigmoid  | 1 / (1 + (C_mid / C)**B)             | Eq. 1                                                        |
| power    | max(0, 1 - (C_mid / C)**B / 2)       | the power law that the paper compares with: A - D / C**B     |
|          |                                      | above the threshold C_mid / 2**(1/B), R0 below it            |
| logistic | 1 / (1 + exp(-B (C / C_mid - 1)))    | logistic in C itself: k = B / C_mid, c = C_mid               |

B has no unit in any of them, so a change of the unit of compute only rescales C_mid.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

FORMS = ("sigmoid", "power", "logistic")
NAMES = ("R0", "A", "B", "C_mid")

_MAX_EXPONENT = 700.0  # exp() of more than this overflows a double


def share(form: str, log_ratio: ArrayLike, b: Array | float) -> Array:
    """Share of the gain reached, in [0, 1], at `log_ratio` = log(C / C_mid); broadcasts over both."""
    v = np.asarray(log_ratio, dtype=float)
    if form == "sigmoid":
        return expit(b * v)
    if form == "power":
        return np.maximum(0.0, 1.0 - 0.5 * np.exp(np.minimum(-b * v, _MAX_EXPONENT)))
    if form == "logistic":
        return expit(b * np.expm1(np.minimum(v, _MAX_EXPONENT)))
    raise ValueError(f"unknown form {form!r}: use one of {', '.join(FORMS)}")


def share_slopes(form: str, log_ratio: ArrayLike, b: Array | float) -> tuple[Array, Array, Array]:
    """The share and its derivatives by log B and by log C_mid, at finite `log_ratio`."""
    v = np.asarray(log_ratio, dtype=float)
    g = share(form, v, b)
    if form == "sigmoid":
        slope = g * (1.0 - g) * b
        return g, slope * v, -slope
    if form == "power":
        rest = b * (1.0 - g) * (g > 0.0)
        return g, rest * v, -rest
    ratio = np.exp(np.minimum(v, _MAX_EXPONENT))
    slope = g * (1.0 - g) * b
    return g, slope * (ratio - 1.0), -slope * ratio


def log_ratio_at(form: str, s: ArrayLike, b: Array | float) -> Array:
    """Inverse of `share`: log(C / C_mid) where the share of the gain is `s`, in (0, 1). Minus infinity where a logistic
    in C has more at zero compute."""
    s = np.asarray(s, dtype=float)
    if form == "power":
        return -np.log(2.0 * (1.0 - s)) / b
    logit = np.log(s) - np.log1p(-s)
    if form == "sigmoid":
        return logit / b
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(0.0, 1.0 + logit / b))


def log_ratio(compute: ArrayLike, c_mid: float) -> Array:
    """log(C / C_mid); minus infinity at zero compute."""
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(compute, dtype=float)) - math.log(c_mid)


def curve(compute: ArrayLike, *, r0: float, a: float, b: float, c_mid: float, form: str = "sigmoid") -> Array:
    """Expected pass rate at `compute` (any shape, >= 0, same unit as `c_mid`). Eq. 1 for the sigmoid."""
    return r0 + (a - r0) * share(form, log_ratio(compute, c_mid), b)


def compute_for(
    target: float, *, r0: float, a: float, b: float, c_mid: float, form: str = "sigmoid"
) -> float:
    """Compute at which the curve reaches `target`: 0 where it starts there, inf where it never does."""
    if target <= r0:
        return 0.0
    if target >= a:
        return math.inf
    s = (target - r0) / (a - r0)
    if not 0.0 < s < 1.0:  # rounding at either end
        return 0.0 if s <= 0.0 else math.inf
    log_c = float(log_ratio_at(form, s, b)) + math.log(c_mid)
    return math.exp(log_c) if log_c < _MAX_EXPONENT else math.inf


def first_reaching(compute: Array, values: Array, rate: float) -> float | None:
    """Compute at which `values` [n] first reach the rate, straight in log compute: 0 where they start there or above,
    None where they do not get there."""
    above = np.flatnonzero(values >= rate)
    if not len(above):
        return None
    k = int(above[0])
    if k == 0:
        return 0.0
    way = (rate - values[k - 1]) / (values[k] - values[k - 1])
    return float(compute[k - 1] * (compute[k] / compute[k - 1]) ** way)


def slope_view(
    compute: ArrayLike, reward: ArrayLike, *, r0: float, a: float, b: float, c_mid: float
) -> tuple[Array, Array]:
    """(log C, log F(R)) of the paper's Fig. 5: F = C_mid**B / ((A - R0) / (R - R0) - 1) = C**B.

    On the sigmoid the points lie on a line of slope B. NaN where R is not between R0 and A.
    """
    r = np.asarray(reward, dtype=float)
    inside = (r > r0) & (r < a)
    s = np.where(inside, (r - r0) / (a - r0), 0.5)
    log_f = b * math.log(c_mid) + np.log(s) - np.log1p(-s)
    return np.log(np.asarray(compute, dtype=float)), np.where(inside, log_f, np.nan)
