"""Simulated curves, for tests, benchmarks and the validation of intervals."""

import numpy as np
from numpy.typing import ArrayLike

from scaling import curve
from scaling.curve import Array


def noise(n: int, sd: float, rng: np.random.Generator, *, rho: float = 0.0) -> Array:
    """Gaussian noise [n] of standard deviation `sd`, AR(1) with correlation `rho`, stationary from the start."""
    e = rng.normal(0.0, sd, n)
    for t in range(1, n):
        e[t] = rho * e[t - 1] + (1.0 - rho**2) ** 0.5 * e[t]
    return e


def rewards(
    compute: ArrayLike,
    *,
    r0: float,
    a: float,
    b: float,
    c_mid: float,
    sd: float,
    rng: np.random.Generator,
    rho: float = 0.0,
    form: str = "sigmoid",
) -> Array:
    """Noisy pass rates [n] on the given curve, kept inside [0, 1]."""
    mean = curve.curve(compute, r0=r0, a=a, b=b, c_mid=c_mid, form=form)
    return np.clip(mean + noise(len(mean), sd, rng, rho=rho), 0.0, 1.0)
