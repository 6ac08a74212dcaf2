from dataclasses import replace

import numpy as np
import pytest

import scaling
from benchmarks.table1 import published_fits
from scaling.curve import curve
from scaling.identifiability import starts_agree
from scaling.simulate import rewards
from scaling.solve import Solutions


def simulated(*, seed, times, a=0.61, b=1.92, r0=0.1, sd=0.01, n=50):
    compute = np.linspace(100 * times / n, 100 * times, n)
    return compute, rewards(compute, r0=r0, a=a, b=b, c_mid=100.0, sd=sd, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(20))
def test_a_curve_that_has_not_bent_gives_no_ceiling_but_a_lower_bound(seed: int) -> None:
    fit = scaling.fit(*simulated(seed=seed, times=0.6))

    assert fit.status == "not_identified"
    assert fit.message.startswith("not identified: A is at least 0.")
    assert "at 90 %" in fit.message
    lo, hi = fit.interval("A")
    assert hi is None
    assert lo <= fit.at_least() <= 0.61  # the truth


@pytest.mark.parametrize("seed", range(10))
def test_the_lower_bound_does_not_rest_on_a_bend_that_was_not_seen(seed: int) -> None:
    """A rise that ends sooner than Eq. 1 lets it: an exponential approach, observed until just before its bend."""
    compute = np.linspace(4.0, 75.0, 20)
    rate = 0.785 - 0.565 * np.exp(-((compute / 90.0) ** 1.6))
    reward = rate + np.random.default_rng(seed).normal(0.0, 0.004, len(compute))
    fit = scaling.fit(compute, reward, r0_observed=[0.22])

    assert fit.status == "not_identified"
    assert 0.4 < fit.at_least() < 0.785
    assert fit.at_least() <= rate[-1] + 0.01


def test_noise_alone_is_no_curve() -> None:
    statuses = set()
    for seed in range(8):
        reward = np.clip(0.15 + np.random.default_rng(seed).normal(0, 0.02, 30), 0, 1)
        statuses.add(scaling.fit(np.arange(1.0, 31.0), reward).status)

    assert "ok" not in statuses


@pytest.mark.parametrize("row", published_fits(), ids=lambda row: row.name)
def test_a_bent_curve_is_identified(row) -> None:
    fit = scaling.fit(*simulated(seed=1, times=6.0, a=row.a, b=row.b))

    assert fit.status == "ok"
    assert None not in fit.interval("A")


@pytest.mark.parametrize("seed", range(8))
def test_a_ceiling_close_to_one_is_identified_though_its_interval_may_touch_one(seed: int) -> None:
    fit = scaling.fit(*simulated(seed=seed, times=6.0, a=0.98, b=1.7, sd=0.02, n=40))

    assert fit.status == "ok"
    lo, hi = fit.interval("A")
    assert 0.9 < lo <= fit.params["A"] <= hi <= 1.0


def test_the_status_does_not_depend_on_the_level_asked_for() -> None:
    compute, reward = simulated(seed=3, times=1.5)

    assert len({scaling.fit(compute, reward, level=level).status for level in (0.5, 0.9, 0.99)}) == 1


def test_the_band_of_an_unbent_curve_holds_what_comes() -> None:
    above = 0
    for seed in range(25):
        compute, reward = simulated(seed=seed, times=0.25)
        fit = scaling.fit(compute, reward)
        above += curve(50.0, r0=0.1, a=0.61, b=1.92, c_mid=100.0) > fit.predict_interval(50.0)[1]

    assert above <= 4


def test_the_statement_names_the_level_of_the_fit() -> None:
    fit = scaling.fit(*simulated(seed=2, times=0.8), level=0.8)

    assert "at 80 %" in fit.message
    assert fit.at_least(0.99) <= fit.at_least(0.8) <= fit.params["A"]


def test_two_curves_that_fit_alike_but_end_elsewhere_give_no_ceiling() -> None:
    fit = scaling.fit(*simulated(seed=1, times=6.0))
    like = fit.likelihood
    assert starts_agree(like)

    rival = Solutions(like.best.b, like.best.m, like.best.r0, like.best.a + 0.1, like.best.sse * 1.0001)
    worse = Solutions(like.best.b, like.best.m, like.best.r0, like.best.a + 0.1, like.best.sse * 2.0)

    assert not starts_agree(replace(like, ends=rival))
    assert starts_agree(replace(like, ends=worse))
