import numpy as np
import pytest

import scaling
from scaling.forecast import hold_out, score
from scaling.simulate import rewards

TRUTH = {"r0": 0.1, "a": 0.6, "b": 1.9, "c_mid": 100.0}


def simulated(seed: int = 0, sd: float = 0.005):
    compute = np.linspace(10.0, 800.0, 80)
    return compute, rewards(compute, **TRUTH, sd=sd, rng=np.random.default_rng(seed))


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
