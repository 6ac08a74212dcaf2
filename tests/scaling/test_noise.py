import numpy as np
import pytest

import scaling
from scaling.noise import Noise, estimate, sampling_stderr, scatter
from scaling.simulate import noise, rewards

DESIGN = np.vander(np.linspace(-1, 1, 50), 4)


def estimated(rho: float, *, repeats: int = 200) -> list[Noise]:
    rng = np.random.default_rng(7)
    found = []
    for _ in range(repeats):
        error = noise(50, 0.01, rng, rho=rho)
        residuals = error - DESIGN @ np.linalg.lstsq(DESIGN, error, rcond=None)[0]
        found.append(estimate(residuals, DESIGN, n_chain=50, known=False, floor=0.0))
    return found


@pytest.mark.parametrize("rho", [0.3, 0.5])
def test_the_autocorrelation_and_variance_of_the_errors_are_found(rho: float) -> None:
    """The autocorrelation a little low: it is drawn towards none, so that independent errors are not inflated."""
    found = estimated(rho)

    assert rho - 0.1 < np.mean([one.rho for one in found]) < rho
    assert np.mean([one.variance for one in found]) == pytest.approx(1e-4, rel=0.15)


def test_independent_noise_is_hardly_inflated() -> None:
    found = estimated(0.0)

    assert np.median([one.inflation for one in found]) == 1.0
    assert np.mean([one.rho for one in found]) < 0.04


def test_correlated_noise_widens_the_interval() -> None:
    width = {}
    for rho in (0.0, 0.6):
        compute = np.linspace(8.0, 400.0, 50)
        rng = np.random.default_rng(2)
        reward = rewards(compute, r0=0.1, a=0.6, b=1.8, c_mid=100.0, sd=0.01, rng=rng, rho=rho)
        fit = scaling.fit(compute, reward)
        width[rho] = np.diff(fit.interval("A"))[0] / fit.noise_sd

    assert width[0.6] > 1.3 * width[0.0]


def test_known_errors_are_believed_unless_the_scatter_is_larger() -> None:
    compute = np.linspace(8.0, 400.0, 50)
    truth = {"r0": 0.1, "a": 0.6, "b": 1.8, "c_mid": 100.0}
    reward = rewards(compute, **truth, sd=0.01, rng=np.random.default_rng(4))

    believed = scaling.fit(compute, reward, stderr=np.full(50, 0.03))
    doubted = scaling.fit(compute, reward, stderr=np.full(50, 0.001))

    assert believed.noise_sd == pytest.approx(0.03)
    assert doubted.noise_sd == pytest.approx(0.01, rel=0.4)


def test_few_points_are_taken_as_independent_with_heavy_tails() -> None:
    residuals = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])

    few = estimate(residuals, np.ones((6, 1)), n_chain=6, known=False, floor=0.0)

    assert few.rho == 0.0 and few.dof == 5
    assert few.quantile(0.9) == pytest.approx(2.015, abs=1e-3)


def test_the_error_of_a_sampled_pass_rate() -> None:
    assert sampling_stderr(0.5, prompts=100) == pytest.approx(0.05)
    assert sampling_stderr([0.5, 0.2], prompts=100, generations=4) == pytest.approx([0.025, 0.02])
    none, all_correct = sampling_stderr([0.0, 1.0], prompts=10)
    assert 0 < none < 0.1 and none == pytest.approx(all_correct)
    with pytest.raises(ValueError, match="at least one prompt"):
        sampling_stderr(0.5, prompts=0)


def test_the_error_of_a_sampled_pass_rate_is_the_scatter_of_samples() -> None:
    measured = np.random.default_rng(0).binomial(320 * 3, 0.3, size=4000) / (320 * 3)

    assert measured.std() == pytest.approx(float(sampling_stderr(0.3, prompts=320, generations=3)), rel=0.03)


@pytest.mark.parametrize(("n", "rho"), [(5, 0.0), (12, 0.0), (200, 0.0), (200, 0.5)])
def test_scatter_is_the_variance_of_the_errors_around_a_straight_line(n: int, rho: float) -> None:
    rng = np.random.default_rng(1)
    line = np.linspace(0.2, 0.6, n)

    found = [scatter(line + noise(n, 0.01, rng, rho=rho), rho) for _ in range(400)]

    assert np.mean(found) == pytest.approx(0.01**2, rel=0.25 if n < 200 else 0.05)


def test_a_jump_hardly_moves_the_scatter() -> None:
    values = np.random.default_rng(2).normal(0.0, 0.01, 40)

    jumped = values + 0.5 * (np.arange(40) > 25)

    assert scatter(jumped) == pytest.approx(scatter(values), rel=0.3)
