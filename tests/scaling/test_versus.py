import math

import numpy as np
import pytest

import scaling
from scaling.curve import curve
from scaling.simulate import rewards
from scaling.versus import probability_above
from tests.deep import examples

SLOW_AND_HIGH = {"r0": 0.1, "a": 0.7, "b": 1.5, "c_mid": 200.0}
FAST_AND_LOW = {"r0": 0.1, "a": 0.55, "b": 1.5, "c_mid": 80.0}


def fitted(truth: dict, *, seed: int = 0, last: float = 800.0, n: int = 50, sd: float = 0.01):
    compute = np.linspace(last / n, last, n)
    return scaling.fit(compute, rewards(compute, **truth, sd=sd, rng=np.random.default_rng(seed)))


def true_crossing() -> float:
    at = np.geomspace(20.0, 5000.0, 20001)
    gap = curve(at, **SLOW_AND_HIGH) - curve(at, **FAST_AND_LOW)
    return float(at[np.flatnonzero(gap[:-1] * gap[1:] < 0)[-1]])


def test_the_order_turns_round_where_the_curves_cross() -> None:
    slow, fast = fitted(SLOW_AND_HIGH), fitted(FAST_AND_LOW, seed=1)
    middle = true_crossing()

    assert probability_above(slow, fast, middle / 3) < 0.01
    assert 0.05 < probability_above(slow, fast, middle) < 0.95
    assert probability_above(slow, fast, 3 * middle) > 0.99
    assert probability_above(slow, fast, math.inf) > 0.99


def test_one_above_the_other_and_the_other_above_the_one_add_up() -> None:
    slow, fast = fitted(SLOW_AND_HIGH, sd=0.03), fitted(FAST_AND_LOW, seed=1, sd=0.03)
    at = true_crossing()

    assert probability_above(slow, fast, at) + probability_above(fast, slow, at) == pytest.approx(
        1.0, abs=0.02
    )
    assert probability_above(slow, slow, at) == pytest.approx(0.5, abs=0.02)
    assert probability_above(slow, fast, at) == probability_above(slow, fast, at)


def test_of_two_normal_estimates_it_is_the_normal_probability() -> None:
    """Well-identified ceilings are nearly normal: P(A_a > A_b) = Phi(difference / hypot of the errors)."""
    one, other = (fitted(FAST_AND_LOW, seed=seed, last=1600.0, n=200, sd=0.005) for seed in (0, 1))
    delta = one.params["A"] - other.params["A"]
    errors = [np.diff(fit.interval("A", 0.6827))[0] / 2 for fit in (one, other)]
    expected = 0.5 * (1 + math.erf(delta / math.hypot(*errors) / math.sqrt(2)))
    assert 0.05 < expected < 0.95

    assert probability_above(one, other, math.inf) == pytest.approx(expected, abs=0.04)


@pytest.mark.long_form
def test_probabilities_are_right_as_often_as_they_say() -> None:
    """Truths drawn about a crossing: of the statements near 0.5 to 0.9 about who is above, as many hold."""
    claimed, held = [], []
    for seed in range(examples(24)):
        rng = np.random.default_rng(500 + seed)
        truth = [
            {"r0": 0.1, "a": rng.uniform(0.55, 0.6), "b": 1.6, "c_mid": rng.uniform(90, 110)} for _ in "ab"
        ]
        one, other = (fitted(t, seed=2 * seed + k, last=400.0, n=30, sd=0.02) for k, t in enumerate(truth))
        p = probability_above(one, other, 800.0, n=1000)
        better = float(curve(800.0, **truth[0]) > curve(800.0, **truth[1]))
        claimed.append(max(p, 1 - p))
        held.append(better if p > 0.5 else 1 - better)

    spread = math.sqrt(sum(p * (1 - p) for p in claimed)) / len(claimed)
    assert abs(np.mean(held) - np.mean(claimed)) < 3 * spread


def test_impossible_questions_are_refused() -> None:
    slow, flat = fitted(SLOW_AND_HIGH), scaling.fit(np.arange(1.0, 9.0), np.full(8, 0.4))

    with pytest.raises(ValueError, match="above zero"):
        probability_above(slow, slow, 0.0)
    with pytest.raises(ValueError, match="nothing to draw from"):
        probability_above(slow, flat, 5.0)
