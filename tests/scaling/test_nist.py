"""Certified answers: nonlinear regression problems of NIST's Statistical Reference Datasets (StRD).

Rat42 is a logistic in x: our logistic form in compute x, and our sigmoid in compute exp(x / 10).
Misra1d is the hyperbola b1 b2 x / (1 + b2 x): our sigmoid with B held at 1, A = b1, C_mid = 1 / b2.
The certified sums of squares also check that the data below were copied right.
"""

import math

import numpy as np
import pytest

import scaling
from scaling.fitting import fit_points
from scaling.points import prepare
from scaling.solve import Problem, design, normal_matrix, scan, solve

RAT42_X = np.array([9.0, 14.0, 21.0, 28.0, 42.0, 57.0, 63.0, 70.0, 79.0])
RAT42_Y = np.array([8.93, 10.80, 18.59, 22.33, 39.35, 56.11, 61.73, 64.62, 67.08])
RAT42 = {"b1": 7.2462237576e01, "b2": 2.6180768402e00, "b3": 6.7359200066e-02}
RAT42_SD_B1 = 1.7340283401e00
RAT42_SSE = 8.0565229338e00

MISRA1D_X = np.array(
    [77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0]
)
MISRA1D_Y = np.array(
    [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78]
)
MISRA1D = {"b1": 4.3736970754e02, "b2": 3.0227324449e-04}
MISRA1D_SSE = 5.6419295283e-02

SIX_DIGITS = {"rel": 5e-7}


def test_the_logistic_in_compute_is_rat42() -> None:
    found = scaling.fit(RAT42_X, RAT42_Y, form="logistic", r0=0.0, bounded=False)

    p = found.params
    assert p["A"] == pytest.approx(RAT42["b1"], **SIX_DIGITS)
    assert p["B"] == pytest.approx(RAT42["b2"], **SIX_DIGITS)
    assert p["B"] / p["C_mid"] == pytest.approx(RAT42["b3"], **SIX_DIGITS)
    assert found.sse == pytest.approx(RAT42_SSE, rel=1e-9)


def test_the_sigmoid_in_log_compute_is_rat42_too() -> None:
    found = scaling.fit(np.exp(RAT42_X / 10.0), RAT42_Y, r0=0.0, bounded=False)

    p = found.params
    assert p["A"] == pytest.approx(RAT42["b1"], **SIX_DIGITS)
    assert p["B"] / 10.0 == pytest.approx(RAT42["b3"], **SIX_DIGITS)
    assert p["B"] * math.log(p["C_mid"]) == pytest.approx(RAT42["b2"], **SIX_DIGITS)
    assert found.sse == pytest.approx(RAT42_SSE, rel=1e-9)


def test_the_standard_deviation_of_rat42s_ceiling_follows_from_the_design() -> None:
    data = prepare(RAT42_X, RAT42_Y, bounded=False)
    like = fit_points(data, form="logistic", r0=0.0, bounded=False).likelihood

    jacobian, residuals = design(like.problem, like.best)

    covariance = np.linalg.inv(jacobian.T @ jacobian) * (residuals @ residuals) / (len(residuals) - 3)
    assert math.sqrt(covariance[0, 0]) == pytest.approx(RAT42_SD_B1, rel=1e-6)


def test_the_sigmoid_with_b_held_at_one_is_misra1d() -> None:
    u = np.log(MISRA1D_X)
    problem = Problem(
        form="sigmoid",
        u=u,
        y=MISRA1D_Y,
        w=np.ones_like(u),
        start_y=np.empty(0),
        start_w=np.empty(0),
        floor=0.0,
        cap=1e4,
        r0=0.0,
        a=None,
        b_range=(0.0, 0.0),
        m_range=(u[0] - 7.0, u[-1] + 7.0),
    )

    best = solve(problem, scan(problem))

    assert best.b[0] == 0.0
    assert best.a[0] == pytest.approx(MISRA1D["b1"], **SIX_DIGITS)
    assert math.exp(-best.m[0]) == pytest.approx(MISRA1D["b2"], **SIX_DIGITS)
    assert best.sse[0] == pytest.approx(MISRA1D_SSE, rel=1e-9)
    gradient = normal_matrix(problem, best)[1]
    assert abs(gradient[0, 3]) < 1e-6  # stationary in C_mid
