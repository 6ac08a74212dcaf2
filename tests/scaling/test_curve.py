import math

import numpy as np
import pytest

from scaling import curve

PARAMS = {"r0": 0.1, "a": 0.61, "b": 1.92, "c_mid": 2542.0}
COMPUTE = np.geomspace(30.0, 40000.0, 25)


@pytest.mark.parametrize("form", curve.FORMS)
def test_half_of_the_gain_is_reached_at_c_mid(form: str) -> None:
    assert curve.curve(2542.0, **PARAMS, form=form) == pytest.approx(0.5 * (0.1 + 0.61), abs=1e-12)


def test_sigmoid_is_equation_1() -> None:
    expected = 0.1 + 0.51 / (1.0 + (2542.0 / COMPUTE) ** 1.92)

    np.testing.assert_allclose(curve.curve(COMPUTE, **PARAMS), expected, rtol=1e-12)


def test_power_is_a_minus_d_over_c_to_the_b_above_its_threshold_and_r0_below() -> None:
    threshold = 2542.0 / 2 ** (1 / 1.92)
    d = 0.5 * 0.51 * 2542.0**1.92
    expected = np.where(threshold < COMPUTE, 0.61 - d / COMPUTE**1.92, 0.1)

    np.testing.assert_allclose(curve.curve(COMPUTE, **PARAMS, form="power"), expected, rtol=1e-12)


def test_logistic_is_a_logistic_in_compute_itself() -> None:
    k = 1.92 / 2542.0
    expected = 0.1 + 0.51 / (1.0 + np.exp(-k * (COMPUTE - 2542.0)))

    np.testing.assert_allclose(curve.curve(COMPUTE, **PARAMS, form="logistic"), expected, rtol=1e-12)


@pytest.mark.parametrize("form", curve.FORMS)
@pytest.mark.parametrize("place, name", [(1, "b"), (2, "c_mid")])
def test_slopes_of_the_share_agree_with_differences(form: str, place: int, name: str) -> None:
    step = 1e-6 * PARAMS[name]
    up = curve.curve(COMPUTE, **{**PARAMS, name: PARAMS[name] + step}, form=form)
    down = curve.curve(COMPUTE, **{**PARAMS, name: PARAMS[name] - step}, form=form)
    expected = PARAMS[name] * (up - down) / (2 * step) / (PARAMS["a"] - PARAMS["r0"])

    found = curve.share_slopes(form, curve.log_ratio(COMPUTE, PARAMS["c_mid"]), PARAMS["b"])[place]

    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("form", curve.FORMS)
def test_compute_for_inverts_the_curve(form: str) -> None:
    for target in (0.33, 0.4, 0.609):
        needed = curve.compute_for(target, **PARAMS, form=form)
        assert curve.curve(needed, **PARAMS, form=form) == pytest.approx(target, abs=1e-12)
    assert curve.compute_for(0.61, **PARAMS, form=form) == math.inf
    assert curve.compute_for(0.1, **PARAMS, form=form) == 0.0


@pytest.mark.parametrize("form", curve.FORMS)
@pytest.mark.parametrize("compute", [1e-3, 1.0, 1e12, 1e30])
@pytest.mark.parametrize("b", [0.02, 1.0, 500.0])
def test_every_form_is_finite_and_bounded_everywhere(form: str, compute: float, b: float) -> None:
    for c_mid in (1e-3, 1.0, 1e30):
        value = curve.curve(compute, r0=0.1, a=0.9, b=b, c_mid=c_mid, form=form)
        slopes = curve.share_slopes(form, curve.log_ratio(compute, c_mid), b)
        assert 0.1 <= value <= 0.9
        assert np.isfinite(slopes).all()


def test_zero_compute_gives_r0_and_a_scalar_gives_a_scalar() -> None:
    assert curve.curve(0.0, **PARAMS) == 0.1
    assert np.shape(curve.curve(5.0, **PARAMS)) == ()


def test_slope_view_is_a_line_of_slope_b() -> None:
    reward = np.append(curve.curve(COMPUTE, **PARAMS), [0.05, 0.7])
    compute = np.append(COMPUTE, [1.0, 1e9])

    log_c, log_f = curve.slope_view(compute, reward, **PARAMS)

    np.testing.assert_allclose(log_f[:-2], 1.92 * log_c[:-2], rtol=1e-9)
    assert np.isnan(log_f[-2:]).all()


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown form 'cubic'"):
        curve.share("cubic", 0.0, 1.0)
