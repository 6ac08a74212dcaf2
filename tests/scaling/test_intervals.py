import numpy as np
import pytest
from scipy.optimize import least_squares

import scaling
from benchmarks.table1 import published_fits
from scaling.curve import curve
from scaling.simulate import rewards

NAMES = ("R0", "A", "B", "C_mid")


def simulated(times: float, seed: int = 0, rho: float = 0.0):
    compute = np.linspace(2.0 * times, 100.0 * times, 50)
    rng = np.random.default_rng(seed)
    return compute, rewards(compute, r0=0.1, a=0.62, b=1.7, c_mid=100.0, sd=0.01, rng=rng, rho=rho)


def sse_with_fixed(compute, reward, params, name, value) -> float:
    """Least sum of squares with one parameter held, by SciPy's own bounded least squares in all four."""
    held = NAMES.index(name)
    others = [k for k in range(4) if k != held]
    start = np.array([params["R0"], params["A"], np.log(params["B"]), np.log(params["C_mid"])])
    start[held] = value if held < 2 else np.log(value)
    lo, hi = np.array([0.0, 0.0, -4.0, -2.0]), np.array([1.0, 1.0, 5.0, 14.0])

    def residuals(rest):
        theta = start.copy()
        theta[others] = rest
        shape = {"b": np.exp(theta[2]), "c_mid": np.exp(theta[3])}
        return reward - curve(compute, r0=theta[0], a=theta[1], **shape)

    found = least_squares(
        residuals, start[others], bounds=(lo[others], hi[others]), x_scale="jac", xtol=1e-12, ftol=1e-12
    )
    return 2 * found.cost


@pytest.mark.parametrize("times", [1.0, 2.0, 4.0, 8.0])
def test_the_ends_lie_where_the_profile_likelihood_says(times: float) -> None:
    compute, reward = simulated(times)
    fit = scaling.fit(compute, reward)
    allowed = fit.likelihood.noise.allowance(0.9)

    for name in NAMES:
        if name == "A" and fit.status != "ok":
            continue  # its interval is what has been reached, not a profile
        for end in fit.interval(name):
            rise = sse_with_fixed(compute, reward, fit.params, name, end) - fit.sse
            assert rise / allowed == pytest.approx(1.0, abs=0.04)


def test_a_higher_level_is_wider() -> None:
    fit = scaling.fit(*simulated(4.0))

    for name in NAMES:
        (lo90, hi90), (lo99, hi99) = fit.interval(name, 0.9), fit.interval(name, 0.99)
        assert lo99 < lo90 < fit.params[name] < hi90 < hi99


def test_the_band_holds_the_curve_and_is_wider_for_a_new_evaluation() -> None:
    fit = scaling.fit(*simulated(4.0))
    at = np.geomspace(5.0, 4000.0, 30)

    lo, hi = fit.predict_interval(at)
    low, high = fit.predict_interval(at, kind="new")

    assert (lo <= fit.predict(at)).all() and (fit.predict(at) <= hi).all()
    assert (low < lo).all() and (hi < high).all()
    assert hi[-1] - lo[-1] == pytest.approx(np.diff(fit.interval("A"))[0], rel=0.25)


def test_the_band_at_great_compute_is_the_interval_of_the_ceiling() -> None:
    fit = scaling.fit(*simulated(4.0))

    lo, hi = fit.predict_interval(1e30)

    assert (float(lo), float(hi)) == pytest.approx(fit.interval("A"), abs=1e-9)


def test_compute_for_a_target_lies_in_its_interval_which_inverts_the_band() -> None:
    fit = scaling.fit(*simulated(4.0))

    lo, hi = fit.compute_for_interval(0.55)

    assert lo < fit.compute_for(0.55) < hi
    assert fit.predict_interval(hi)[0] == pytest.approx(0.55, abs=1e-3)
    assert fit.compute_for(0.9) == float("inf") and fit.compute_for_interval(0.9) == (None, None)


def test_bad_questions_are_refused() -> None:
    fit = scaling.fit(*simulated(4.0))

    with pytest.raises(KeyError):
        fit.interval("D")
    with pytest.raises(scaling.InputError):
        fit.interval("A", 1.2)
    with pytest.raises(ValueError, match="neither 'mean' nor 'new'"):
        fit.predict_interval(5.0, kind="old")
    with pytest.raises(ValueError, match="above zero"):
        fit.predict_interval([5.0, 0.0])


@pytest.mark.parametrize("rho, least", [(0.0, 0.77), (0.5, 0.71)])
def test_intervals_cover_the_true_ceiling(rho: float, least: float) -> None:
    """90 % intervals over 40 curves; the bounds are three standard errors below what long simulations show."""
    rows, inside = published_fits(), 0
    for k in range(40):
        row = rows[k % len(rows)]
        compute = np.linspace(0.08 * row.c_mid, 4 * row.c_mid, 50)
        rng = np.random.default_rng(1000 + k)
        reward = rewards(compute, r0=0.1, a=row.a, b=row.b, c_mid=row.c_mid, sd=0.01, rng=rng, rho=rho)
        lo, hi = scaling.fit(compute, reward).interval("A")
        inside += lo <= row.a and (hi is None or row.a <= hi)

    assert inside / 40 >= least
