"""The averaged forecast: its family, its integrals, what does not matter to it, and what it refuses."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from scaling import curve, extrapolate
from scaling.extrapolate import SMALL_GAIN, Posterior, Prior, share
from scaling.noise import noise
from scaling.points import InputError, prepare
from scaling.simulate import rewards

LENGTH = 2.0
LATER = np.array([1.0, 2.0, 4.0, 10.0])


def points(*, times: float = 4.0, sd: float = 0.01, seed: int = 0, n: int = 40, **shape: float):
    """Evaluations up to compute 1, which is `times` C_mid."""
    compute = np.linspace(1.0 / n, 1.0, n)
    truth = {"r0": 0.1, "a": 0.6, "b": 1.5, "c_mid": 1.0 / times} | shape
    return compute, rewards(compute, sd=sd, rng=np.random.default_rng(seed), **truth)


def test_the_tail_runs_from_weibull_to_eq_1() -> None:
    v = np.linspace(-3.0, 3.0, 25)

    assert share(v, np.array(1.7), np.array(1.0)) == pytest.approx(curve.share("sigmoid", v, 1.7))
    weibull = 1.0 - 2.0 ** -np.exp(1.7 * v)
    assert share(v, np.array(1.7), np.array(1e-6)) == pytest.approx(weibull, abs=1e-5)
    for nu in (0.05, 0.5, 1.0, 2.0):
        assert share(np.array([0.0]), np.array(0.8), np.array(nu)) == pytest.approx(0.5)
        assert (np.diff(share(v, np.array(0.8), np.array(nu))) > 0).all()


def one_shape(mid: float) -> Prior:
    """A prior of one point of the grid."""
    return Prior(
        nu=((0.7, 1.0),),
        stopped=(),
        discrepancy=((0.01, LENGTH, 1.0),),
        steps=(1, 1),
        log_b=(0.4, 1e-9),
        log_mid=(mid, 1e-9),
    )


def test_the_evidence_is_the_integral_over_both_ends_of_the_curve() -> None:
    """Odds of two shapes, against sums of prior times likelihood over a fine grid of R0 and A."""
    compute, reward = points(n=8)
    data = prepare(compute, reward, r0_observed=[0.12])
    u, variance = np.log(compute), noise(data)
    covariance = 0.01**2 * np.exp(-np.abs(u[:, None] - u) / LENGTH) + np.diag(variance)
    start = stats.norm(0.12, math.sqrt(variance.mean() + 0.01**2 + Prior().start ** 2))
    r0, a = (x.ravel() for x in np.meshgrid(np.linspace(0.0, 0.3, 300), np.linspace(0.3, 1.0, 700)))
    weight = (
        stats.norm(*Prior().r0).pdf(r0)
        * stats.norm(*Prior().a).pdf(a)
        * start.pdf(r0)
        / (a - r0 + SMALL_GAIN)
    )

    def summed(mid: float) -> float:
        gained = share(u - mid, np.exp(0.4), np.array(0.7))
        left = reward - r0[:, None] - (a - r0)[:, None] * gained
        return float((stats.multivariate_normal(np.zeros(8), covariance).pdf(left) * weight).sum())

    odds = Posterior(data, one_shape(-1.2)).log_evidence - Posterior(data, one_shape(-1.0)).log_evidence

    assert odds == pytest.approx(math.log(summed(-1.2) / summed(-1.0)), abs=0.01)


def test_draws_of_both_ends_have_the_moments_of_the_integral() -> None:
    prior = one_shape(-1.2)
    compute, reward = points(n=12)
    u = np.log(compute)
    covariance = 0.01**2 * np.exp(-np.abs(u[:, None] - u) / LENGTH) + np.diag(noise(prepare(compute, reward)))
    gained = share(u + 1.2, np.exp(0.4), np.array(0.7))
    design = np.column_stack([1.0 - gained, gained])
    precision = design.T @ np.linalg.solve(covariance, design) + np.diag(
        [prior.r0[1] ** -2, prior.a[1] ** -2]
    )
    right = design.T @ np.linalg.solve(covariance, reward) + np.array(
        [prior.r0[0] / prior.r0[1] ** 2, prior.a[0] / prior.a[1] ** 2]
    )
    found = Posterior(prepare(compute, reward), prior)

    ends = np.column_stack([found._r0, found._a])
    assert ends.mean(axis=0) == pytest.approx(np.linalg.solve(precision, right), abs=1e-3)
    assert np.cov(ends.T) == pytest.approx(np.linalg.inv(precision), rel=0.1, abs=1e-6)


def test_a_fine_grid_says_what_the_drawn_in_one_says() -> None:
    """Precise evaluations: the first grid's nodes are ten standard deviations apart."""
    compute, reward = points(sd=0.0015, n=60)

    (own, fine) = (
        Posterior(prepare(compute, reward), Prior(steps=steps)).draws(LATER)
        for steps in (Prior().steps, (61, 81))
    )

    assert own.mean(axis=0) == pytest.approx(fine.mean(axis=0), abs=5e-4)
    assert own.std(axis=0) == pytest.approx(fine.std(axis=0), rel=0.1)


@pytest.mark.parametrize("shape", [{}, {"b": 3.0}, {"r0": 0.4, "a": 0.95}])
def test_it_holds_what_comes_on_a_clean_curve(shape: dict[str, float]) -> None:
    compute, reward = points(sd=0.003, **shape)
    truth = {"r0": 0.1, "a": 0.6, "b": 1.5, "c_mid": 0.25} | shape

    said = extrapolate(compute, reward, LATER, level=0.98)

    came = curve.curve(LATER, **truth)
    assert ((said.lo <= came) & (came <= said.hi)).all()
    assert (said.lo <= said.value).all() and (said.value <= said.hi).all()
    assert said.ceiling_interval is not None and said.ceiling is not None
    assert said.ceiling_interval[0] <= truth["a"] <= said.ceiling_interval[1]


def test_the_unit_of_compute_and_the_order_do_not_matter_and_nothing_is_random() -> None:
    compute, reward = points()

    said = extrapolate(compute, reward, LATER)
    again = extrapolate(compute[::-1] * 1e15, reward[::-1], LATER * 1e15)

    assert again.value == pytest.approx(said.value, abs=1e-12) and again.hi == pytest.approx(
        said.hi, abs=1e-12
    )
    assert (extrapolate(compute, reward, LATER).value == said.value).all()


# (evaluations, options): few and many, noisy and precise, early and late; what is known of the start and of errors
STORED_CASES: dict[str, tuple] = {
    "plain": (points(), {}),
    "five evaluations": (points(n=5, sd=0.02), {}),
    "averaged": (points(n=300, sd=0.02, seed=3), {}),
    "precise": (points(sd=0.0008, n=60, seed=1), {"level": 0.5}),
    "early": (points(times=0.6, seed=2), {}),
    "late and steep": (points(times=30.0, b=3.0, r0=0.3, a=0.95), {}),
    "start and errors": (
        points(times=1.5, seed=4),
        {"r0_observed": [0.09, 0.11], "stderr": np.full(40, 0.02)},
    ),
}
# the prior that they were made with
BEFORE = Prior(
    nu=((0.05, 1.0), (0.5, 1.0), (1.0, 1.0)),
    stopped=(),
    log_b=(0.3, 0.6),
    log_mid=(-1.0, 1.2),
    discrepancy=((0.003, 4.0, 1.0), (0.02, 4.0, 2.0)),
    start=0.0,
    kappa=(0.0, 0.0),  # growth as the forms have it
    reach=2.3,
)
STORED = json.loads(Path(__file__).with_name("forecasts_stored.json").read_text())


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored["case"])
def test_forecasts_are_those_of_before_they_were_made_faster(stored: dict) -> None:
    data, options = STORED_CASES[stored["case"]]

    said = extrapolate(*data, LATER, prior=BEFORE, **options)

    for name in ("value", "lo", "hi", "ceiling", "ceiling_interval"):
        assert getattr(said, name) == pytest.approx(stored[name], abs=1e-9)


@pytest.mark.parametrize("times", [4.0, 30.0, 60.0])
def test_a_run_seen_far_beyond_its_middle_is_known_well(times: float) -> None:
    """Its C_mid lies far out in the prior: the grid must reach it, else no form follows the curve and the discrepancy
    takes it all."""
    compute = np.linspace(times / 60, times, 60)
    reward = (
        0.1 + 0.5 * compute**1.5 / (1 + compute**1.5) + 0.005 * np.random.default_rng(1).standard_normal(60)
    )

    said = extrapolate(compute, reward, [2 * times])

    came = 0.1 + 0.5 / (1 + (2 * times) ** -1.5)
    assert said.lo[0] < came < said.hi[0]
    assert said.hi[0] - said.lo[0] < (0.03 if times < 10 else 0.012)


def test_a_run_that_stopped_is_forecast_to_stay_and_one_that_rises_is_not() -> None:
    """Along Eq. 1 the one to the end, the other up to 0.65 of the compute, and level from there."""
    shape = {"r0": 0.1, "a": 0.6, "b": 1.0, "c_mid": 1.0}
    compute, rising = points(times=1.0, b=1.0, sd=0.004, n=80)
    at_end = curve.curve(np.minimum(compute, 0.65), **shape)
    level = rising + at_end - curve.curve(compute, **shape)
    never = replace(Prior(), stopped=())

    stays, would = (extrapolate(compute, level, LATER, prior=prior) for prior in (Prior(), never))
    rises, same = (extrapolate(compute, rising, LATER, prior=prior) for prior in (Prior(), never))

    assert stays.value == pytest.approx(np.full(4, at_end[-1]), abs=0.01)
    assert stays.ceiling == pytest.approx(at_end[-1], abs=0.01)
    assert (stays.hi - stays.lo < 0.5 * (would.hi - would.lo)).all()
    assert rises.value == pytest.approx(same.value, abs=0.01)


def test_the_further_ahead_the_wider() -> None:
    said = extrapolate(*points(times=1.5), LATER)

    assert (np.diff(said.hi - said.lo) > 0).all()


def test_an_evaluation_before_the_first_update_hardly_moves_what_is_ahead() -> None:
    """Real runs rise from it in other ways than the forms do."""
    compute, reward = points(times=1.5)

    free, *known = (extrapolate(compute, reward, LATER, r0_observed=r0) for r0 in (None, 0.0, 0.2))

    width = free.hi - free.lo
    for said in known:
        assert (np.abs(said.value - free.value) < 0.02 * width).all()
        assert said.hi - said.lo == pytest.approx(width, rel=0.1)


def test_hours_that_are_not_worth_the_same_go_by_what_was_done_in_them() -> None:
    """A machine that had half of its speed in the first third of the run."""
    work, reward = points()
    hours = work + np.minimum(work, work[len(work) // 3])
    ahead = hours[-1] * np.array([1.0, 2.0, 10.0])

    said = extrapolate(hours, reward, ahead, work=work)

    by_work = extrapolate(work, reward, work[-1] * np.array([1.0, 2.0, 10.0]))
    assert said.value == pytest.approx(by_work.value) and said.hi == pytest.approx(by_work.hi)
    assert said.at == pytest.approx(ahead) and said.ceiling == by_work.ceiling
    seen = extrapolate(hours, reward, hours[[0, 9, -1]], work=work)
    assert seen.value == pytest.approx(extrapolate(work, reward, work[[0, 9, -1]]).value)


def test_an_even_pace_changes_nothing() -> None:
    compute, reward = points()

    plain, paced = (extrapolate(compute, reward, LATER, work=work) for work in (None, 3.0e6 * compute))

    assert paced.value == pytest.approx(plain.value) and paced.lo == pytest.approx(plain.lo)


def test_given_errors_are_taken_unless_the_scatter_is_larger() -> None:
    compute, reward = points(sd=0.01)

    small, large = (noise(prepare(compute, reward, stderr=np.full(40, sd))) for sd in (0.001, 0.05))

    assert large == pytest.approx(np.full(40, 0.05**2))
    assert math.sqrt(small.mean()) == pytest.approx(0.01, rel=0.5)


def test_many_evaluations_are_averaged_and_say_more_of_the_same() -> None:
    few, many = (extrapolate(*points(n=n, sd=0.01), LATER) for n in (60, 2000))

    assert many.value == pytest.approx(curve.curve(LATER, r0=0.1, a=0.6, b=1.5, c_mid=0.25), abs=0.01)
    assert ((few.lo < many.value) & (many.value < few.hi)).all()
    assert many.hi[-1] - many.lo[-1] < few.hi[-1] - few.lo[-1]


def test_a_tail_that_is_not_known_is_said_to_be_so() -> None:
    early, late = extrapolate(*points(times=0.6), LATER), extrapolate(*points(times=30.0, sd=0.003), LATER)

    assert early.status == "not_identified" and early.message.startswith("the tail is not known yet")
    assert (late.status, late.message) == ("ok", "")


def test_a_level_curve_stays_where_it_is() -> None:
    reward = 0.3 + np.random.default_rng(0).normal(0.0, 0.005, 40)
    said = extrapolate(np.linspace(0.025, 1.0, 40), reward, [1.0])

    assert said.value[0] == pytest.approx(0.3, abs=0.01)
    assert said.hi[0] - said.lo[0] < 0.03


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        (np.linspace(0.6, 0.3, 40), "the pass rate falls"),
        (np.r_[np.linspace(0.3, 0.6, 20), np.full(19, 0.65), 0.5], "the pass rate falls, from 0.65"),
        (
            np.r_[np.linspace(0.3, 0.6, 20), np.full(17, 0.65), np.full(3, 0.63)],
            "the pass rate falls, from 0.65",
        ),
        (
            np.r_[np.linspace(0.2, 0.3, 20), np.linspace(0.5, 0.55, 20)],
            "the pass rate jumps from 0.300 to 0.500",
        ),
    ],
)
def test_what_no_saturating_curve_describes_has_no_numbers(reward: np.ndarray, words: str) -> None:
    scatter = np.random.default_rng(0).normal(0.0, 0.004, 40)
    said = extrapolate(np.linspace(0.025, 1.0, 40), reward + scatter, LATER)

    assert said.status == "failed" and words[:20] in said.message and said.message.count("\n") == 0
    assert np.isnan(said.value).all() and np.isnan(said.lo).all()
    assert said.ceiling is None and said.ceiling_interval is None


def test_a_dip_that_is_over_is_forgotten() -> None:
    reward = np.r_[np.linspace(0.3, 0.6, 20), np.full(19, 0.65), 0.5, 0.65]
    scatter = np.random.default_rng(0).normal(0.0, 0.004, 41)

    assert extrapolate(np.linspace(0.025, 1.0, 41), reward + scatter, LATER).status != "failed"


@pytest.mark.parametrize("seed", range(20))
def test_ordinary_curves_are_not_said_to_jump_or_fall(seed: int) -> None:
    assert extrapolate(*points(times=8.0, sd=0.015, seed=seed), [2.0]).status != "failed"
    assert extrapolate(*points(b=4.0, sd=0.004, seed=seed), [2.0]).status != "failed"


@pytest.mark.parametrize("n", [8, 12])
def test_a_jump_of_few_evaluations_is_seen_too(n: int) -> None:
    """A resumed run with other prompts, say: the jump is among the differences that the noise is judged by."""
    step = np.arange(n)
    reward = 0.3 + 0.01 * step + 0.3 * (step >= n // 2) + 0.004 * (-1.0) ** step

    found = extrapolate(1.0 + step, reward, [2.0 * n])

    assert found.status == "failed" and f"jumps from {reward[n // 2 - 1]:.3f} to" in found.message


@pytest.mark.parametrize("n", [8, 12, 20, 40])
@pytest.mark.parametrize("rate", [0.0005, 0.002, 0.02])
def test_rates_of_a_few_samples_are_not_said_to_jump(n: int, rate: float) -> None:
    """Most of their differences are none at all, and the others of one sample or two."""
    rng = np.random.default_rng(n)
    for _ in range(100):
        reward = rng.binomial(512, rate, n) / 512
        assert "jump" not in extrapolate(np.arange(1.0, n + 1), reward, [2.0 * n]).message


@pytest.mark.parametrize(
    ("compute", "reward", "at", "level", "words"),
    [
        ([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.3], [5], 0.9, "only 4 points"),
        ([1, 2, 3, 4, 5], [0.1, 0.2, 0.3, 0.3, 1.4], [5], 0.9, "is not between 0 and 1"),
        ([0, 2, 3, 4, 5], [0.1, 0.2, 0.3, 0.3, 0.4], [5], 0.9, "is not above zero"),
        ([1, 2, 3, 4, 5], [0.1, 0.2, 0.3, 0.3, 0.4], [0], 0.9, "at is not a list of computes above zero"),
        (
            [1, 2, 3, 4, 5],
            [0.1, 0.2, 0.3, 0.3, 0.4],
            [math.inf],
            0.9,
            "at is not a list of computes above zero",
        ),
        ([1, 2, 3, 4, 5], [0.1, 0.2, 0.3, 0.3, 0.4], [5], 1.0, "level 1.0"),
    ],
)
def test_bad_input_is_refused_with_its_reason(compute, reward, at, level: float, words: str) -> None:
    with pytest.raises(InputError, match=words):
        extrapolate(compute, reward, at, level=level)


def test_all_at_one_compute_has_no_curve() -> None:
    said = extrapolate([2.0] * 6, [0.1, 0.2, 0.3, 0.3, 0.4, 0.4], [5.0])

    assert said.status == "failed" and said.message == "all evaluations lie at the compute 2"


def test_a_constant_curve_has_no_forecast() -> None:
    said = extrapolate(np.arange(1.0, 9.0), np.zeros(8), [20.0])

    assert said.status == "failed" and said.ceiling is None and np.isnan(said.value).all()
    assert said.message == "all evaluations have the pass rate 0: nothing shows when, or whether, it rises"
