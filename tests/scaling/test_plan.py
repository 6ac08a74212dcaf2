"""What more compute buys, by a forecast: closed examples, and what a made curve really does."""

import math

import numpy as np
import pytest

import scaling
from scaling import curve, plan
from scaling.course import Course, course_of
from scaling.simulate import rewards

TRUTH = {"r0": 0.1, "a": 0.6, "b": 1.9, "c_mid": 100.0}
SEEN = 400.0


@pytest.fixture(scope="module")
def made() -> Course:
    compute = np.linspace(SEEN / 50, SEEN, 50)
    return course_of(scaling.fit(compute, rewards(compute, **TRUTH, sd=0.005, rng=np.random.default_rng(0))))


def straight(lo: float = 0.1, hi: float = 0.1) -> Course:
    """0.2 at compute 1 to 0.8 at 100, straight in its logarithm; the ceiling is 0.9. Seen up to 10, where it is 0.5."""
    compute = np.geomspace(1.0, 100.0, 21)
    value = np.linspace(0.2, 0.8, 21)
    return Course("ok", "", 0.9, 0.9, (0.9 - lo, 0.9 + hi), compute, value, value - lo, value + hi, 10.0)


def test_a_rate_is_reached_straight_between_the_nodes() -> None:
    compute, value = np.array([1.0, 10.0, 100.0]), np.array([0.2, 0.4, 0.6])

    assert curve.first_reaching(compute, value, 0.5) == pytest.approx(10**1.5)
    assert curve.first_reaching(compute, value, 0.6) == pytest.approx(100.0)
    assert curve.first_reaching(compute, value, 0.1) == 0.0
    assert curve.first_reaching(compute, value, 0.7) is None


def test_the_compute_to_a_target_has_the_interval_of_the_band() -> None:
    found, (early, late) = plan.compute_to(straight(), 0.5)

    assert found == pytest.approx(10.0)
    assert early == pytest.approx(10 ** (2 / 3)) and late == pytest.approx(10 ** (4 / 3))
    assert plan.compute_to(straight(), 0.75)[1][1] is None


def test_a_gain_counts_from_what_was_seen() -> None:
    assert plan.gain(straight(), 100.0) == pytest.approx((0.3, 0.2, 0.4))
    assert plan.gain(straight(), 10.0)[0] == pytest.approx(0.0)
    assert all(math.isnan(end) for end in plan.gain(straight(), 1000.0))


def test_what_is_left_ends_at_the_ceiling_and_is_never_negative() -> None:
    assert plan.left(straight()) == pytest.approx((0.4, 0.3, 0.5))
    assert plan.left(straight(lo=0.6))[1] == 0.0


@pytest.mark.parametrize(("delta", "stops"), [(0.51, True), (0.49, False)])
def test_stopping_asks_for_the_upper_end(delta: float, stops: bool) -> None:
    assert plan.may_stop(straight(), delta) is stops


def test_the_ceiling_is_near_where_the_curve_is() -> None:
    assert plan.near_ceiling(straight(), 0.4) == pytest.approx(10.0)
    assert plan.near_ceiling(straight(), 0.05) is None


def test_where_nothing_is_forecast_nothing_is_planned() -> None:
    nothing = np.empty(0)
    failed = Course("failed", "it falls", 0.9, None, None, nothing, nothing, nothing, nothing, 10.0)

    assert plan.may_stop(failed, 0.5) is False and plan.near_ceiling(failed, 0.1) is None
    with pytest.raises(ValueError, match="nothing is forecast: it falls"):
        plan.left(failed)


def test_a_made_curve_does_what_was_planned(made: Course) -> None:
    value, lo, hi = plan.gain(made, 4 * SEEN)
    truth = np.asarray(curve.curve(np.array([SEEN, 4 * SEEN]), **TRUTH))

    assert lo < truth[1] - truth[0] < hi and abs(value - (truth[1] - truth[0])) < 0.02
    _, (early, late) = plan.compute_to(made, 0.55)
    assert early is not None and late is not None and early < curve.compute_for(0.55, **TRUTH) < late
