import numpy as np
import pytest

import scaling
from scaling.plan import after, compute_to, gain, when_to_stop, which_to_continue
from scaling.simulate import rewards

TRUTH = {"r0": 0.1, "a": 0.6, "b": 1.9, "c_mid": 100.0}


def fitted(*, seed=0, last=400.0, **truth):
    compute = np.linspace(last / 50, last, 50)
    return scaling.fit(
        compute, rewards(compute, **{**TRUTH, **truth}, sd=0.01, rng=np.random.default_rng(seed))
    )


def early():
    fit = fitted(last=60.0)
    assert fit.status == "not_identified"
    return fit


def test_the_gain_is_the_difference_of_two_predictions() -> None:
    fit = fitted()

    value, lo, hi = gain(fit, 200.0, 800.0)

    assert value == pytest.approx(float(fit.predict(800.0) - fit.predict(200.0)))
    assert lo < value < hi


def test_its_interval_is_narrower_than_the_bands_suggest_and_never_below_zero() -> None:
    fit = fitted()
    (low_a, high_a), (low_b, high_b) = fit.predict_interval(400.0), fit.predict_interval(1600.0)

    _, lo, hi = gain(fit, 400.0, 1600.0)

    assert hi - lo < (high_b - low_a) - (low_b - high_a)
    assert lo >= 0.0


def test_no_more_compute_gains_nothing() -> None:
    assert gain(fitted(), 300.0, 300.0) == (0.0, 0.0, 0.0)


def test_impossible_computes_are_refused() -> None:
    with pytest.raises(ValueError, match="above zero"):
        gain(fitted(), 0.0, 5.0)


# --- the compute to a target


def test_the_compute_to_a_target_is_the_fits_with_its_interval() -> None:
    fit = fitted()

    reach = compute_to(fit, 0.5)

    assert reach.compute == fit.compute_for(0.5) and reach.interval == fit.compute_for_interval(0.5)
    lo, hi = reach.interval
    true = 100.0 * (0.4 / 0.1) ** (1 / 1.9)
    assert lo < true < hi and hi / lo < 1.3
    assert reach.above_ceiling == 0.0
    assert reach.sentence == f"0.5 is reached at {reach.compute:.4g} [{lo:.4g}, {hi:.4g}] (90 %)"


def test_the_probability_of_being_above_the_ceiling_is_a_half_at_the_ceiling() -> None:
    fit = fitted()
    at_best = compute_to(fit, fit.params["A"])
    lo, hi = fit.interval("A")

    assert at_best.compute is None and at_best.interval[1] is None
    assert at_best.above_ceiling == pytest.approx(0.5, abs=0.15)
    assert compute_to(fit, lo).above_ceiling == pytest.approx(0.05, abs=0.04)
    assert compute_to(fit, hi).above_ceiling == pytest.approx(0.95, abs=0.05)
    assert compute_to(fit, 0.99).above_ceiling == 1.0
    assert compute_to(fit, 0.99).sentence == "0.99 is above the ceiling with probability above 0.99"


def test_without_a_ceiling_the_end_is_open_and_the_words_say_so() -> None:
    fit = early()

    reach = compute_to(fit, 0.55)

    assert reach.interval[1] is None and 0.1 < reach.above_ceiling < 0.9
    assert "rests on the prior" in reach.sentence
    with pytest.raises(ValueError, match="finite"):
        compute_to(fit, float("nan"))


# --- when to stop


def test_near_the_ceiling_it_says_stop_and_far_below_go_on() -> None:
    fit = fitted(seed=3)
    near, far = when_to_stop(fit, 4000.0, 0.01), when_to_stop(fit, 100.0, 0.01, level=0.99)

    assert near.stop and near.below > 0.99 and near.sentence.startswith("stop: 0.00")
    assert not far.stop and far.below == 0.0
    true = 100.0 * (0.5 / 0.01 - 1) ** (1 / 1.9)  # A - R(C) = 0.01
    assert far.interval[0] < true < far.interval[1] and far.interval[0] < far.compute < far.interval[1]
    lo, hi = far.remaining_interval
    assert lo < 0.6 - 0.35 < hi and lo < far.remaining < hi
    assert f"is expected from {far.compute:.4g} [" in far.sentence


def test_at_the_compute_it_names_it_says_stop_and_a_little_before_it_does_not() -> None:
    fit = fitted()
    stop_at = when_to_stop(fit, 100.0, 0.02, 0.8).stop_at

    assert when_to_stop(fit, stop_at * 1.001, 0.02, 0.8).stop
    assert not when_to_stop(fit, stop_at * 0.98, 0.02, 0.8).stop
    assert when_to_stop(fit, stop_at, 0.02, 0.8).below == pytest.approx(0.8, abs=0.001)
    assert when_to_stop(fit, 100.0, 0.02, 0.95).stop_at > stop_at


def test_no_stop_is_advised_where_the_ceiling_is_not_identified() -> None:
    result = when_to_stop(early(), 60.0, 0.9, 0.5)

    assert not result.stop and result.remaining is None and result.compute is None
    assert result.interval[1] is None and result.remaining_interval == (0.0, None)
    assert result.sentence == "the ceiling is not identified, so the data do not say what remains at 60"


def test_impossible_stops_are_refused() -> None:
    for at, delta, probability in ((0.0, 0.01, 0.9), (5.0, 0.0, 0.9), (5.0, 0.01, 1.0)):
        with pytest.raises(ValueError):
            when_to_stop(fitted(), at, delta, probability)


# --- which to continue


def test_the_best_at_a_small_budget_need_not_be_the_best_at_a_great_one() -> None:
    fits = {"high": fitted(a=0.7, c_mid=200.0), "fast": fitted(a=0.55, c_mid=80.0, seed=1)}

    soon, late = which_to_continue(fits, 100.0), which_to_continue(fits, 4000.0)

    assert [c.name for c in soon.candidates] == ["fast", "high"] and soon.candidates[0].best > 0.99
    assert [c.name for c in late.candidates] == ["high", "fast"] and late.candidates[0].best > 0.99
    for choice in (soon, late):
        assert sum(c.best for c in choice.candidates) == pytest.approx(1.0)
        for c in choice.candidates:
            assert c.interval[0] <= c.value <= c.interval[1]
            assert c.value == pytest.approx(float(fits[c.name].predict(c.budget)))


def test_equal_recipes_share_the_probability() -> None:
    choice = which_to_continue({str(k): fitted(seed=0) for k in range(4)}, 800.0)

    assert [c.best for c in choice.candidates] == pytest.approx([0.25] * 4, abs=0.03)


def test_of_those_that_cannot_win_the_higher_goes_first() -> None:
    fits = {
        "best": fitted(a=0.8),
        "worst": fitted(a=0.3, seed=1),
        "third": fitted(a=0.5, seed=2),
        "second": fitted(seed=3),
    }

    choice = which_to_continue(fits, 4000.0)

    assert [c.name for c in choice.candidates] == ["best", "second", "third", "worst"]
    assert [round(c.best, 2) for c in choice.candidates] == [1.0, 0.0, 0.0, 0.0]


def test_each_may_have_its_own_budget() -> None:
    fits = {"a": fitted(), "b": fitted(seed=1)}

    choice = which_to_continue(fits, {"a": 100.0, "b": 400.0})

    assert choice.candidates[0].name == "b" and choice.candidates[0].best > 0.99
    assert after(fits, 50.0) == {"a": 450.0, "b": 450.0}
    with pytest.raises(ValueError, match="b: the budget"):
        which_to_continue(fits, {"a": 100.0})


def test_an_early_run_takes_part_with_what_it_allows_and_a_failed_one_is_named() -> None:
    flat = scaling.fit(np.arange(1.0, 9.0), np.full(8, 0.4))
    fits = {"late": fitted(), "early": early(), "flat": flat}

    choice = which_to_continue(fits, 2000.0)

    assert choice.excluded == {"flat": flat.message} and "every reward is the same" in flat.message
    by_name = {c.name: c for c in choice.candidates}
    assert by_name["early"].status == "not_identified" and by_name["early"].so_far == 60.0
    assert 0.05 < by_name["early"].best < 0.95
    assert np.ptp(by_name["early"].interval) > 5 * np.ptp(by_name["late"].interval)
    assert which_to_continue({"flat": flat}, 5.0).candidates == ()
