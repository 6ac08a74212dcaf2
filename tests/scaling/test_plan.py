import numpy as np
import pytest

import scaling
from scaling.plan import gain
from scaling.simulate import rewards

TRUTH = {"r0": 0.1, "a": 0.6, "b": 1.9, "c_mid": 100.0}


def fitted():
    compute = np.linspace(8.0, 400.0, 50)
    return scaling.fit(compute, rewards(compute, **TRUTH, sd=0.01, rng=np.random.default_rng(0)))


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
