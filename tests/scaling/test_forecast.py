import numpy as np
import pytest

import scaling
from scaling.forecast import rolling, score, sentence
from scaling.simulate import rewards

TRUTH = {"r0": 0.1, "a": 0.6, "b": 1.9, "c_mid": 100.0}


def simulated(seed: int = 0, sd: float = 0.005):
    compute = np.linspace(10.0, 800.0, 80)
    return compute, rewards(compute, **TRUTH, sd=sd, rng=np.random.default_rng(seed))


def hold_out(compute, reward, cutoff):
    """The fit of the points up to the cutoff, and its score by those after it."""
    later = compute > cutoff
    fitted = scaling.fit(compute, reward, window=(None, cutoff))
    return fitted, score(fitted, compute[later], reward[later])


def test_later_points_of_the_same_curve_fall_inside_the_band() -> None:
    compute, reward = simulated()

    fit, forecast = hold_out(compute, reward, 400.0)

    assert fit.window[1] <= 400.0
    assert forecast.n == (compute > 400).sum()
    assert forecast.inside == round(forecast.coverage * forecast.n)
    assert forecast.coverage > 0.7
    assert abs(forecast.mean_error) <= forecast.rmse < 0.03


def test_the_error_is_what_came_minus_what_was_predicted() -> None:
    fit = scaling.fit(*simulated())

    forecast = score(fit, [900.0, 1000.0], fit.predict([900.0, 1000.0]) + 0.1)

    assert (forecast.n, forecast.inside, forecast.coverage) == (2, 0, 0.0)
    assert forecast.mean_error == pytest.approx(0.1) and forecast.rmse == pytest.approx(0.1)


def test_no_later_points_give_no_score() -> None:
    forecast = score(scaling.fit(*simulated()), [], [])

    assert forecast.n == 0 and forecast.coverage is None and forecast.rmse is None


def test_unusable_later_points_are_refused() -> None:
    with pytest.raises(scaling.InputError):
        score(scaling.fit(*simulated()), [0.0], [0.5])


def test_a_forecast_at_twice_the_compute_is_close() -> None:
    errors = [abs(hold_out(*simulated(seed), 400.0)[1].mean_error) for seed in range(20)]

    assert np.quantile(errors, 0.9) < 0.015


def test_each_cutoff_is_the_fit_that_had_seen_no_more() -> None:
    compute, reward = simulated()

    rows = rolling(compute, reward, (0.5, 0.25))

    assert [row.fraction for row in rows] == [0.25, 0.5]
    half = rows[1]
    fit, scored = hold_out(compute, reward, 400.0)
    assert (half.status, half.n, half.cutoff) == ("ok", fit.n, 400.0)
    assert half.predicted == float(fit.predict(800.0)) and half.came == reward[-1]
    assert half.error == half.came - half.predicted
    assert half.interval == tuple(map(float, fit.predict_interval(800.0, kind="new")))
    assert half.inside == (half.interval[0] <= half.came <= half.interval[1])
    assert (half.n_later, half.coverage) == (scored.n, scored.coverage)


def test_what_comes_after_a_cutoff_does_not_change_its_forecast() -> None:
    compute, reward = simulated()
    other = np.where(compute > 400.0, 0.3, reward)

    one, changed = rolling(compute, reward, (0.5,))[0], rolling(compute, other, (0.5,))[0]

    assert (changed.predicted, changed.interval) == (one.predicted, one.interval)
    assert changed.came == 0.3 and not changed.inside and changed.coverage == 0.0


def test_later_cutoffs_are_surer() -> None:
    rows = rolling(*simulated(), (0.3, 0.5, 0.8))
    widths = [np.ptp(row.interval) for row in rows]

    assert widths[0] > widths[1] > widths[2]


def test_the_sentence_gives_the_interval_and_what_came() -> None:
    row = rolling(*simulated(), (0.5,))[0]
    lo, hi = row.interval

    assert sentence(row) == (
        f"from 50 % of the compute, predicted {row.predicted:.3f} [{lo:.3f}, {hi:.3f}], came {row.came:.3f}"
    )


def test_cutoffs_that_know_too_little_say_so() -> None:
    few, early = rolling(*simulated(), (0.03, 0.1))

    assert (few.status, few.predicted, few.coverage, few.inside) == ("failed", None, None, None)
    assert sentence(few).startswith(
        "from 3 % of the compute, no forecast (only 2 points: at least 5 are needed), "
    )
    assert early.status == "not_identified" and early.interval[1] > 0.7
    assert "(the ceiling was not identified)" in sentence(early)


def test_a_curve_that_had_not_risen_gives_no_forecast() -> None:
    compute, reward = simulated()

    row = rolling(compute, np.where(compute <= 400.0, 0.1, reward), (0.5,))[0]

    assert row.status == "failed" and "every reward is the same" in sentence(row)


def test_a_window_leaves_points_out_of_the_forecast_and_of_what_came() -> None:
    compute, reward = simulated()

    row = rolling(compute, reward, (0.5,), window=(55.0, 605.0))[0]

    assert (row.compute, row.cutoff, row.n, row.n_later) == (600.0, 300.0, 25, 30)


def test_the_order_of_the_points_does_not_matter() -> None:
    compute, reward = simulated()
    mixed = np.random.default_rng(1).permutation(len(compute))

    assert rolling(compute[mixed], reward[mixed], (0.5,)) == rolling(compute, reward, (0.5,))


def test_unusable_questions_are_refused() -> None:
    for fractions in ((), (0.5, 1.0), (0.0,)):
        with pytest.raises(scaling.InputError, match="fractions"):
            rolling(*simulated(), fractions)
    with pytest.raises(scaling.InputError, match="unknown form"):
        rolling(*simulated(), (0.01,), form="cubic")


def test_the_last_evaluation_comes_inside_as_often_as_the_level_says() -> None:
    """90 % intervals from half of the compute, 40 runs; the bound is three standard errors below."""
    inside = [rolling(*simulated(seed, sd=0.01), (0.5,))[0].inside for seed in range(40)]

    assert np.mean(inside) >= 0.9 - 3 * (0.9 * 0.1 / 40) ** 0.5
