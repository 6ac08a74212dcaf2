"""Crashed evaluations are left out and named; ordinary noise is not."""

import numpy as np
import pytest

import scaling
from scaling.simulate import rewards
from tests.deep import examples

COMPUTE = np.linspace(25.0, 600.0, 24)


def simulated(seed: int = 0, sd: float = 0.01) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rewards(COMPUTE, r0=0.1, a=0.6, b=1.9, c_mid=100.0, sd=sd, rng=rng)


@pytest.mark.parametrize("crashed", [[0], [23], [5], [3, 20], [10, 11, 12]])
def test_crashed_evaluations_change_nothing(crashed: list[int]) -> None:
    reward = simulated()
    clean = np.delete(reward, crashed)
    reward[crashed] = 0.0

    robust = scaling.fit(COMPUTE, reward, robust=True)

    assert robust.left_out == pytest.approx(COMPUTE[crashed])
    without = scaling.fit(np.delete(COMPUTE, crashed), clean)
    assert robust.params == without.params and robust.digest == without.digest
    assert robust.message.endswith(
        "left out as outliers, at compute " + ", ".join(f"{c:.4g}" for c in COMPUTE[crashed])
    )


def test_one_crash_ruins_the_plain_fit() -> None:
    reward = simulated()
    reward[20] = 0.0

    plain, robust = scaling.fit(COMPUTE, reward), scaling.fit(COMPUTE, reward, robust=True)

    assert abs(robust.params["A"] - 0.6) < 0.01
    assert plain.status != "ok" or np.diff(plain.interval("A")) > 3 * np.diff(robust.interval("A"))


@pytest.mark.long_form
def test_ordinary_noise_stays_in() -> None:
    """Normal noise, and Student t of 5 degrees of freedom, which has about one point in a thousand beyond 8."""
    left_out = {"normal": 0, "t": 0}
    for seed in range(examples(40)):
        rng = np.random.default_rng(seed)
        exact = simulated(sd=0.0)
        for name, noise in (("normal", rng.normal(size=24)), ("t", rng.standard_t(5, size=24))):
            fitted = scaling.fit(COMPUTE, np.clip(exact + 0.01 * noise, 0, 1), robust=True)
            left_out[name] += len(fitted.left_out)

    assert left_out["normal"] == 0
    assert left_out["t"] <= 3


def test_too_many_outliers_are_none() -> None:
    reward = simulated()
    reward[::3] -= 0.1

    assert scaling.fit(COMPUTE, reward, robust=True).left_out == ()


def test_few_points_cannot_tell_an_outlier_from_a_bend() -> None:
    assert scaling.fit(COMPUTE[:6], np.array([0.1, 0.15, 0.2, 0.25, 0.3, 0.0]), robust=True).left_out == ()


def test_exact_points_with_one_crash() -> None:
    reward = simulated(sd=0.0)
    reward[7] = 0.9

    fitted = scaling.fit(COMPUTE, reward, robust=True)

    assert fitted.left_out == (COMPUTE[7],)
    assert fitted.params["A"] == pytest.approx(0.6, abs=1e-6)


def test_stderr_and_the_start_stay_with_their_points() -> None:
    reward, stderr = simulated(), np.linspace(0.008, 0.012, 24)
    reward[4] = 0.0

    robust = scaling.fit(COMPUTE, reward, stderr=stderr, r0_observed=[0.1], robust=True)

    kept = np.delete(np.arange(24), 4)
    without = scaling.fit(COMPUTE[kept], reward[kept], stderr=stderr[kept], r0_observed=[0.1])
    assert robust.params == without.params
