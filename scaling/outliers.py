"""Crashed evaluations: points so far from every reasonable curve that they say nothing about it.

A robust curve (Tukey's biweight, iterated from the least squares one) gives residuals that an outlier cannot pull to
itself; points beyond CUT robust standard deviations are left out, and the fit says which. The cut is wide on purpose:
ordinary noise, even with heavy tails, stays in.
"""

from dataclasses import replace

import numpy as np

from scaling.curve import Array, Bools
from scaling.solve import Problem, Solutions, scan, shares, solve

CUT = 8.0  # robust standard deviations, which few points measure poorly
MAX_SHARE = 0.2  # more than this share of the points is no accident: all stay in
MIN_POINTS = 8  # with fewer, an outlier cannot be told from a bend
_TUKEY = 4.685  # 95 % efficiency under normal noise
_MAD_TO_SD = 1.4826
_ROUNDS = 12


def inliers(problem: Problem) -> Bools:
    """[n] True for the points to keep, in the problem's order. All True where too many would go, or of too few."""
    if len(problem.u) < MIN_POINTS:
        return np.ones(len(problem.u), dtype=bool)
    current, scale, residual = problem, 0.0, problem.y
    for _ in range(_ROUNDS):
        best = solve(current, scan(current))
        residual = _residuals(problem, best)
        scale = _scale(residual, problem)
        weight = np.clip(1.0 - (residual / (_TUKEY * scale)) ** 2, 0.0, None) ** 2
        updated = replace(problem, w=problem.w * np.maximum(weight, 1e-6))
        if np.allclose(updated.w, current.w, rtol=1e-3, atol=1e-6 * float(problem.w.max())):
            break
        current = updated
    keep = np.abs(residual) <= CUT * scale
    return keep if np.mean(~keep) <= MAX_SHARE else np.ones_like(keep)


def _residuals(p: Problem, at: Solutions) -> Array:
    """Standardised residuals [n] of one solution."""
    g = shares(p, at.b, at.m)[0]
    return (p.y - at.r0[0] - (at.a[0] - at.r0[0]) * g) * np.sqrt(p.w)


def _scale(residual: Array, p: Problem) -> float:
    """Robust standard deviation; corrected for the four parameters, which pull the residuals in."""
    n = len(residual)
    floor = 1e-6 * float(np.ptp(p.y) * np.sqrt(p.w.max())) + 1e-300
    return max(_MAD_TO_SD * float(np.median(np.abs(residual))) * np.sqrt(n / max(n - 4, 1)), floor)
