import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import curve_fit

import scaling
from benchmarks.table1 import published_fits
from scaling.curve import curve
from scaling.paper import fit_grid
from scaling.simulate import rewards
from tests.deep import examples

ROWS = published_fits()


def simulated(row, *, seed=0, n=50, times=4.0, sd=0.01, r0=0.1, rho=0.0):
    compute = np.linspace(times * row.c_mid / n, times * row.c_mid, n)
    rng = np.random.default_rng(seed)
    return compute, rewards(compute, r0=r0, a=row.a, b=row.b, c_mid=row.c_mid, sd=sd, rng=rng, rho=rho)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_published_curves_are_recovered_exactly_from_exact_points(row) -> None:
    compute, reward = simulated(row, sd=0.0)

    fit = scaling.fit(compute, reward)

    assert fit.status == "ok"
    expected = {"R0": 0.1, "A": row.a, "B": row.b, "C_mid": row.c_mid}
    assert fit.params == pytest.approx(expected, rel=1e-5)
    assert fit.sse < 1e-12


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_published_curves_are_recovered_from_noisy_points(row) -> None:
    fit = scaling.fit(*simulated(row, times=8.0))

    assert fit.status == "ok"
    assert np.diff(fit.interval("A"))[0] < 0.15
    for name, truth in (("A", row.a), ("B", row.b), ("C_mid", row.c_mid)):
        lo, hi = fit.interval(name, 0.999)
        assert lo < truth < hi


@pytest.mark.parametrize("form", scaling.FORMS)
@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e12, 1e25])
def test_the_unit_of_compute_does_not_matter(form: str, unit: float) -> None:
    compute, reward = simulated(ROWS[0])
    here, there = scaling.fit(compute, reward, form=form), scaling.fit(compute * unit, reward, form=form)

    assert there.status == here.status
    for name in ("R0", "A", "B"):
        assert there.params[name] == pytest.approx(here.params[name], rel=1e-4, abs=1e-6)
        for end, expected in zip(there.interval(name), here.interval(name), strict=True):
            assert end == (None if expected is None else pytest.approx(expected, rel=1e-3, abs=1e-5))
    assert there.params["C_mid"] == pytest.approx(here.params["C_mid"] * unit, rel=1e-4)


@pytest.mark.parametrize("form", ["power", "logistic"])
def test_the_other_forms_recover_themselves(form: str) -> None:
    compute = np.linspace(20.0, 3000.0, 60)
    truth = {"r0": 0.1, "a": 0.7, "b": 1.3, "c_mid": 300.0}

    fit = scaling.fit(compute, curve(compute, **truth, form=form), form=form)

    assert fit.status == "ok"
    assert list(fit.params.values()) == pytest.approx(list(truth.values()), rel=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_sse_is_never_larger_than_that_of_the_papers_grid(seed: int) -> None:
    row = ROWS[seed]
    compute, reward = simulated(row, seed=seed, times=(1.0, 2.0, 6.0)[seed % 3])
    coarse = {"a_grid": np.arange(0.45, 0.81, 0.05), "c_mid_grid": np.linspace(100, 40000, 12)}

    grid = fit_grid(compute, reward, r0=0.1, **coarse)

    assert scaling.fit(compute, reward, r0=0.1).sse <= grid.sse
    assert scaling.fit(compute, reward).sse <= scaling.fit(compute, reward, r0=0.1).sse * (1 + 1e-9)


def test_a_given_r0_is_held_and_observed_ones_pull() -> None:
    compute, reward = simulated(ROWS[0])
    held = scaling.fit(compute, reward, r0=0.05)
    pulled = scaling.fit(compute, reward, r0_observed=[0.05] * 50)

    assert held.params["R0"] == 0.05 and held.interval("R0") == (0.05, 0.05)
    assert pulled.params["R0"] == pytest.approx(0.05, abs=0.01)
    lo, hi = pulled.interval("R0")
    free_lo, free_hi = scaling.fit(compute, reward).interval("R0")
    assert hi - lo < free_hi - free_lo


def test_precise_points_count_more() -> None:
    compute, reward = simulated(ROWS[0], times=8.0)
    crashed = reward.copy()
    crashed[40] = 0.1
    stderr = np.full(50, 0.01)
    stderr[40] = 1.0

    fit = scaling.fit(compute, crashed, stderr=stderr)

    assert fit.params["A"] == pytest.approx(scaling.fit(compute, reward).params["A"], abs=0.003)
    assert scaling.fit(compute, crashed).params["A"] < fit.params["A"]


def test_the_window_leaves_points_out() -> None:
    compute, reward = simulated(ROWS[0])
    fit = scaling.fit(compute, reward, window=(1500.0, 8000.0))

    used = (compute >= 1500) & (compute <= 8000)
    assert fit.n == used.sum()
    assert fit.window == (compute[used][0], compute[used][-1])
    assert fit.digest == scaling.fit(compute[used], reward[used]).digest


def test_the_same_points_give_the_same_numbers_in_any_order() -> None:
    compute, reward = simulated(ROWS[1])
    order = np.random.default_rng(5).permutation(len(compute))

    one, other = scaling.fit(compute, reward), scaling.fit(compute[order], reward[order])

    assert one.params == other.params
    assert one.intervals == other.intervals


@pytest.mark.parametrize(
    "reward",
    [
        pytest.param(np.full(20, 0.4), id="constant"),
        pytest.param(np.linspace(0.6, 0.1, 20), id="falling"),
    ],
)
def test_what_does_not_rise_fails_and_says_so(reward) -> None:
    fit = scaling.fit(np.arange(1.0, 21.0), reward)

    assert fit.status == "failed"
    assert "no curve to fit" in fit.message
    assert fit.params is None and fit.sse is None
    assert fit.interval("A") == (None, None) and fit.at_least() is None
    with pytest.raises(ValueError, match="there is no curve"):
        fit.predict(3.0)


def test_too_few_different_computes_fail() -> None:
    fit = scaling.fit([1.0, 1.0, 2.0, 2.0, 3.0, 3.0], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])

    assert fit.status == "failed" and "different computes" in fit.message


def test_rewards_need_not_be_pass_rates_when_the_box_is_lifted() -> None:
    compute, reward = simulated(ROWS[0], times=8.0, sd=0.005)

    fit = scaling.fit(compute, 20 * reward - 10, bounded=False)

    assert fit.status == "ok"
    assert fit.params["A"] == pytest.approx(20 * scaling.fit(compute, reward).params["A"] - 10, rel=1e-4)


def test_a_fit_survives_pickling() -> None:
    fit = scaling.fit(*simulated(ROWS[0]))

    again = pickle.loads(pickle.dumps(fit))

    assert again.params == fit.params and again.interval("A", 0.8) == fit.interval("A", 0.8)


NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0.0, 1.0),
    st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1e300]),
)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), max_size=25),
    st.sampled_from(scaling.FORMS),
    st.sampled_from([None, 0.0, 0.3]),
    st.booleans(),
    st.booleans(),
)
def test_no_input_crashes_or_gives_a_number_that_is_not_one(points, form, r0, bounded, robust) -> None:
    compute, reward = [c for c, _ in points], [r for _, r in points]
    check_honest(compute, reward, form=form, r0=r0, bounded=bounded, robust=robust)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.tuples(st.floats(1e-3, 1e30), st.floats(0.0, 1.0)), min_size=5, max_size=30),
    st.sampled_from(scaling.FORMS),
    st.booleans(),
)
def test_no_usable_points_crash_either(points, form, bounded) -> None:
    check_honest([c for c, _ in points], [r for _, r in points], form=form, bounded=bounded)


def check_honest(compute, reward, **options) -> None:
    try:
        fit = scaling.fit(compute, reward, **options)
    except scaling.InputError as error:
        assert error.reason
        return
    if fit.status == "failed":
        assert fit.params is None and fit.message
        return
    assert all(math.isfinite(value) for value in fit.params.values())
    assert math.isfinite(fit.sse) and math.isfinite(fit.at_least())
    for name, (lo, hi) in fit.intervals.items():
        assert lo is None or (math.isfinite(lo) and lo <= fit.params[name])
        assert hi is None or (math.isfinite(hi) and hi >= fit.params[name])
    if fit.status == "not_identified":
        assert fit.interval("A")[1] is None and "A is at least" in fit.message
    for kind in ("mean", "new"):
        lo, hi = fit.predict_interval(compute, kind=kind)
        assert np.isfinite(lo).all() and np.isfinite(hi).all() and (lo <= hi).all()


def test_the_parameters_are_those_of_scipys_curve_fit() -> None:
    compute, reward = simulated(ROWS[0], seed=6, times=6.0)
    fit = scaling.fit(compute, reward)

    def model(c, r0, a, b, c_mid):
        return curve(c, r0=r0, a=a, b=b, c_mid=c_mid)

    found, _ = curve_fit(model, compute, reward, p0=list(fit.params.values()), xtol=1e-12)
    np.testing.assert_allclose(list(fit.params.values()), found, rtol=1e-5)
