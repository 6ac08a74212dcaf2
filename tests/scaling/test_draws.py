import math

import numpy as np
import pytest

import scaling
from scaling import curve
from scaling.draws import Draws, chance, draws, interval
from scaling.fitting import fit_points
from scaling.simulate import rewards


def simulated(times: float, *, n: int = 50, seed: int = 0, sd: float = 0.01):
    compute = np.linspace(100.0 * times / n, 100.0 * times, n)
    rng = np.random.default_rng(seed)
    return compute, rewards(compute, r0=0.1, a=0.62, b=1.7, c_mid=100.0, sd=sd, rng=rng)


def drawn(fit, n: int = 4000, seed: int = 1) -> Draws:
    return draws(fit, n, np.random.default_rng(seed))


@pytest.mark.parametrize("times, n", [(4.0, 50), (8.0, 50), (8.0, 12)])
def test_quantiles_of_well_identified_curves_are_the_profile_interval(times: float, n: int) -> None:
    fit = scaling.fit(*simulated(times, n=n))
    assert fit.status == "ok"

    for name in ("R0", "A", "B", "C_mid"):
        lo, hi = fit.interval(name)
        width = hi - lo
        assert interval(getattr(drawn(fit), name), 0.9) == pytest.approx((lo, hi), abs=0.25 * width)


def test_the_draws_follow_the_posterior_that_a_brute_grid_gives() -> None:
    """R0 held, nine points not bent yet: the density of the docstring summed over a grid of A, log B, log C_mid."""
    compute, reward = simulated(2.0, n=9, seed=3)
    fit = scaling.fit(compute, reward, r0=0.1)
    noise, sse = fit.likelihood.noise, fit.likelihood.best.sse[0]
    a = np.linspace(0.1, 1.0, 181)[1:]
    b, m = np.linspace(-2.0, 3.9, 119), np.linspace(math.log(10.0), math.log(10000.0), 121)
    g = curve.share("sigmoid", np.log(compute) - m[None, :, None], np.exp(b)[:, None, None])
    residual = (reward - 0.1) - (a[:, None, None, None] - 0.1) * g
    rise = (residual**2).sum(axis=-1) - sse
    scale = noise.dof * noise.variance * noise.inflation
    density = (1.0 + rise / scale) ** (-0.5 * (noise.dof + 3))

    got = drawn(fit, 8000)

    for values, axis, nodes in ((got.A, 0, a), (np.log(got.B), 1, b), (np.log(got.C_mid), 2, m)):
        others = tuple({0, 1, 2} - {axis})
        share = np.cumsum(density.sum(axis=others)) / density.sum()
        for level in (0.05, 0.25, 0.5, 0.75, 0.95):
            k = int(np.searchsorted(share, level))
            edge = nodes[k] + 0.5 * (nodes[1] - nodes[0])
            assert np.mean(values <= edge) == pytest.approx(share[k], abs=0.02)


def test_the_same_generator_gives_the_same_draws() -> None:
    fit = scaling.fit(*simulated(4.0))

    one, same, other = drawn(fit, 50), drawn(fit, 50), drawn(fit, 50, seed=2)

    assert np.array_equal(one.A, same.A) and np.array_equal(one.C_mid, same.C_mid)
    assert not np.array_equal(one.A, other.A)


def test_draws_are_in_no_order_so_that_two_fits_can_be_paired() -> None:
    """The proposals go up in C_mid; were they kept in order, pairing two fits would make their errors move together."""
    got = drawn(scaling.fit(*simulated(4.0)))

    assert abs(np.corrcoef(np.arange(4000), got.C_mid)[0, 1]) < 0.08


@pytest.mark.parametrize("form", scaling.FORMS)
def test_prediction_and_its_inverse_agree_in_every_form(form: str) -> None:
    compute, reward = simulated(4.0)
    got = drawn(scaling.fit(compute, reward, form=form), 300)

    at = got.predict([50.0, 200.0, math.inf, 0.0])
    back = got.compute_for(at[:, 1])

    assert at.shape == (300, 4)
    assert back == pytest.approx(np.full(300, 200.0), rel=1e-6)
    assert at[:, 2] == pytest.approx(got.A)
    assert np.isinf(got.compute_for(1.01)).all() and (got.compute_for(-0.01) == 0.0).all()
    one = curve.curve([50.0], r0=got.R0[7], a=got.A[7], b=got.B[7], c_mid=got.C_mid[7], form=form)
    assert at[7, 0] == pytest.approx(one[0])


def test_every_draw_lies_in_the_box() -> None:
    for times in (0.3, 1.0, 8.0):
        got = drawn(scaling.fit(*simulated(times, n=12)), 1000)
        assert (got.R0 >= -1e-12).all() and (got.R0 <= got.A + 1e-12).all() and (got.A <= 1.0 + 1e-12).all()


def test_what_is_cut_off_is_spread_over_the_rest_and_not_heaped_on_the_bound() -> None:
    """R0 and A at the ends of the box: the free optimum lies outside for about half of the shapes."""
    compute = np.linspace(8.0, 800.0, 60)
    rng = np.random.default_rng(0)
    reward = rewards(compute, r0=0.0, a=1.0, b=1.7, c_mid=100.0, sd=0.02, rng=rng)

    got = drawn(scaling.fit(compute, reward))

    assert np.mean(got.R0 <= 1e-12) < 0.01 and np.mean(got.A >= 1.0 - 1e-12) < 0.01
    assert got.R0.max() < 0.15 and got.A.min() > 0.9


def test_a_ceiling_that_is_not_identified_is_drawn_wide() -> None:
    fit = scaling.fit(*simulated(0.6))
    assert fit.status == "not_identified"

    got = drawn(fit)
    lo, hi = interval(got.A, 0.9)

    assert hi - lo > 0.4 and hi > 0.9
    assert lo > fit.at_least(0.98)
    inside = got.predict(fit.window[1])[:, 0]
    assert interval(inside, 0.9) == pytest.approx(
        tuple(map(float, fit.predict_interval(fit.window[1]))), abs=0.02
    )


def test_what_is_held_fixed_stays_fixed() -> None:
    fit = scaling.fit(*simulated(4.0))
    held = fit_points(fit.data, a=0.6, r0=0.1)

    got = drawn(held, 500)

    assert np.allclose(got.A, 0.6) and np.allclose(got.R0, 0.1)
    assert interval(got.B, 0.9) == pytest.approx(held.interval("B"), rel=0.02)
    assert np.allclose(drawn(fit_points(fit.data, a=0.6), 500).A, 0.6)


def test_the_unit_of_compute_does_not_matter() -> None:
    compute, reward = simulated(4.0)

    here, there = drawn(scaling.fit(compute, reward)), drawn(scaling.fit(compute * 1e6, reward))

    assert interval(there.A, 0.9) == pytest.approx(interval(here.A, 0.9), abs=2e-3)
    assert np.median(there.C_mid) == pytest.approx(1e6 * np.median(here.C_mid), rel=5e-3)


def test_exact_points_draw_the_curve_itself() -> None:
    got = drawn(scaling.fit(*simulated(8.0, sd=0.0)), 500)

    assert interval(got.A, 0.99) == pytest.approx((0.62, 0.62), abs=1e-4)


def test_quantiles_of_infinities_are_infinite_and_never_nan() -> None:
    lo, hi = interval(np.array([1.0, 2.0, math.inf, math.inf]), 0.9)

    assert lo == 1.0 and hi == math.inf


def test_a_failed_fit_has_nothing_to_draw() -> None:
    fit = scaling.fit(np.arange(1.0, 9.0), np.full(8, 0.4))

    with pytest.raises(ValueError, match="nothing to draw from"):
        drawn(fit)


@pytest.mark.parametrize("form", scaling.FORMS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("error")
def test_no_data_give_a_number_that_is_not_one(form: str, seed: int) -> None:
    """Pure noise, exact lines, a single step, computes many decades apart: draws are finite and stay in their box."""
    rng = np.random.default_rng(seed)
    compute = np.sort(rng.lognormal(30.0 * seed, (0.01, 1.0, 5.0, 1.0)[seed], 15))
    step = np.where(np.arange(15) == 9, 1.0, 0.0)
    for reward in (rng.random(15), np.linspace(0.0, 1.0, 15), step):
        fit = scaling.fit(compute, reward, form=form)
        if fit.params is None:
            continue
        got = drawn(fit, 200)
        for values in (got.R0, got.A, got.B, got.C_mid, got.predict([compute[0], compute[-1] * 1e6])):
            assert np.isfinite(values).all()
        assert (got.A <= 1 + 1e-12).all() and (got.R0 <= got.A + 1e-12).all() and got.effective > 20


def test_no_share_of_draws_is_called_certain() -> None:
    assert [chance(p) for p in (0.0, 0.004, 0.012, 0.5, 0.985, 0.996, 1.0)] == [
        "below 0.01",
        "below 0.01",
        "0.01",
        "0.50",
        "0.98",
        "above 0.99",
        "above 0.99",
    ]
