import numpy as np
import pytest

import scaling
from scaling.compare import compare, difference, recipe_ceiling
from scaling.simulate import rewards


def fitted(*, a=0.6, b=1.9, times=6.0, seed=0, sd=0.005):
    compute = np.linspace(100 * times / 60, 100 * times, 60)
    return scaling.fit(
        compute, rewards(compute, r0=0.1, a=a, b=b, c_mid=100.0, sd=sd, rng=np.random.default_rng(seed))
    )


def test_ceilings_further_apart_than_the_margin_decide() -> None:
    low, high = fitted(a=0.55), fitted(a=0.61, seed=1)

    assert compare(low, high).winner == "b"
    assert compare(high, low).winner == "a"
    assert "higher ceiling, by 0.0" in compare(high, low).reason


def test_a_lead_that_the_intervals_do_not_support_is_no_lead() -> None:
    pinned, vague = fitted(a=0.61), fitted(a=0.63, b=1.6, times=2.5, sd=0.012, seed=4)
    assert vague.status == "ok" and vague.params["A"] - pinned.params["A"] > 0.02
    assert vague.interval("A")[0] < pinned.params["A"]

    result = compare(vague, pinned)

    assert result.winner == "undecided" and "may be zero" in result.reason
    assert result.delta_a_interval[0] < 0 < result.delta_a_interval[1]


def test_the_difference_of_two_estimates_adds_the_squares_of_their_sides() -> None:
    delta, (lo, hi) = difference((0.7, 0.66, 0.78), (0.6, 0.57, 0.63))

    assert delta == pytest.approx(0.1)
    assert (lo, hi) == pytest.approx((0.05, 0.1 + np.hypot(0.08, 0.03)))
    assert difference((0.7, 0.66, None), (0.6, 0.57, 0.63))[1] == (pytest.approx(0.05), None)


def test_a_tie_is_refitted_at_the_shared_ceiling_and_the_higher_b_is_more_efficient() -> None:
    slow, fast = fitted(b=1.5), fitted(b=2.2, seed=1)

    result = compare(slow, fast)

    assert result.winner == "tie_ceiling" and result.more_efficient == "b"
    assert result.shared_A == pytest.approx(0.5 * (slow.params["A"] + fast.params["A"]))
    assert result.B_a == pytest.approx(1.5, abs=0.1) and result.B_b == pytest.approx(2.2, abs=0.1)


def test_equal_recipes_tie_in_everything() -> None:
    result = compare(fitted(), fitted(seed=1))

    assert result.winner == "tie_ceiling" and result.more_efficient is None
    assert "overlap" in result.reason


def test_an_unknown_ceiling_decides_nothing() -> None:
    result = compare(fitted(), fitted(times=0.6))

    assert result.winner == "undecided" and "not identified" in result.reason


def test_one_seed_keeps_its_interval_and_more_combine() -> None:
    assert recipe_ceiling([(0.6, 0.58, 0.63)]) == (0.6, 0.58, 0.63)

    mean, lo, hi = recipe_ceiling([(0.60, 0.59, 0.61), (0.61, 0.60, 0.62), (0.59, 0.58, 0.60)])

    assert mean == pytest.approx(0.6)
    assert 0.58 < lo < 0.6 < hi < 0.62
    assert recipe_ceiling([(0.6, 0.59, None), (0.61, 0.6, 0.62)])[2] is None
    with pytest.raises(ValueError, match="no seeds"):
        recipe_ceiling([])


def test_seeds_that_differ_more_than_their_intervals_widen_the_recipes() -> None:
    close = recipe_ceiling([(0.60, 0.59, 0.61), (0.60, 0.59, 0.61), (0.60, 0.59, 0.61)])
    apart = recipe_ceiling([(0.55, 0.54, 0.56), (0.60, 0.59, 0.61), (0.65, 0.64, 0.66)])

    assert apart[2] - apart[1] > 4 * (close[2] - close[1])


def test_two_seeds_far_apart_say_little_but_stay_pass_rates() -> None:
    mean, lo, hi = recipe_ceiling([(0.90, 0.89, 0.91), (0.96, 0.95, 0.97)])

    assert mean == pytest.approx(0.93) and lo == pytest.approx(0.93 - 6.314 * 0.03, abs=1e-3) and hi == 1.0
    assert recipe_ceiling([(9.0, 8.9, 9.1), (9.6, 9.5, 9.7)])[2] > 9.6
