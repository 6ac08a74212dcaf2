import math

import numpy as np
import pytest
from scipy.stats import chi2
from scipy.stats import t as student

import scaling
from scaling.seeds import (
    Between,
    Estimate,
    estimate_of,
    joint,
    margin,
    pool,
    variation,
)
from scaling.simulate import rewards
from tests.deep import examples

# The 13 trials of the BCG vaccine (Colditz et al., JAMA 271, 1994), the worked example of random-effects software:
# treated with and without the disease, controls with and without it.
BCG = np.array(
    [
        [4, 119, 11, 128],
        [6, 300, 29, 274],
        [3, 228, 11, 209],
        [62, 13536, 248, 12619],
        [33, 5036, 47, 5761],
        [180, 1361, 372, 1079],
        [8, 2537, 10, 619],
        [505, 87886, 499, 87892],
        [29, 7470, 45, 7232],
        [17, 1699, 65, 1600],
        [186, 50448, 141, 27197],
        [5, 2493, 3, 2338],
        [27, 16886, 29, 17825],
    ],
    dtype=float,
)


def bcg() -> list[Estimate]:
    """Log risk ratios with their standard errors."""
    a, b, c, d = BCG.T
    effect = np.log(a / (a + b)) - np.log(c / (c + d))
    se = np.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d))
    return [Estimate(*pair) for pair in zip(effect, se, strict=True)]


def run(seed: int, *, a=0.61, b=1.9, c_mid=100.0, times=6.0, sd=0.008, n=40):
    compute = np.linspace(100 * times / n, 100 * times, n)
    rng = np.random.default_rng(seed)
    return scaling.fit(compute, rewards(compute, r0=0.1, a=a, b=b, c_mid=c_mid, sd=sd, rng=rng))


def recipe(seed: int, runs: int, *, sd_a=0.01, **options):
    """Fits of runs whose curves differ between seeds."""
    rng = np.random.default_rng(seed)
    return [
        run(
            1000 * seed + k,
            a=rng.normal(0.61, sd_a),
            b=1.9 * math.exp(rng.normal(0.0, 0.1)),
            c_mid=100.0 * math.exp(rng.normal(0.0, 0.15)),
            **options,
        )
        for k in range(runs)
    ]


def test_the_published_answers_of_the_bcg_trials() -> None:
    found = pool(bcg(), level=0.95)

    assert found.sd**2 == pytest.approx(0.3181, abs=5e-5)  # Paule-Mandel
    assert (found.sd_lo**2, found.sd_hi**2) == pytest.approx((0.1197, 1.1115), abs=5e-5)  # Q profile
    assert found.value == pytest.approx(-0.7150, abs=5e-4)


def test_equal_errors_give_the_plain_mean_and_t_interval() -> None:
    y, se = np.array([0.55, 0.60, 0.66, 0.63]), 0.01

    found = pool([Estimate(v, se) for v in y], level=0.9)

    reach = student.ppf(0.95, 3) * y.std(ddof=1) / 2
    assert found.value == pytest.approx(y.mean())
    assert (found.lo, found.hi) == pytest.approx((y.mean() - reach, y.mean() + reach))
    assert found.sd**2 == pytest.approx(y.var(ddof=1) - se**2)
    squares = ((y - y.mean()) ** 2).sum()
    ends = [math.sqrt(squares / chi2.ppf(p, 3) - se**2) for p in (0.95, 0.05)]
    assert (found.sd_lo, found.sd_hi) == pytest.approx(ends)


def test_runs_that_agree_by_chance_are_no_surer_than_their_noise() -> None:
    found = pool([Estimate(0.6, 0.01)] * 3, level=0.9)

    assert found.sd == 0.0 and found.sd_lo == 0.0
    assert found.hi - found.value == pytest.approx(1.6449 * 0.01 / math.sqrt(3), rel=1e-3)


def test_precise_runs_count_more_and_a_shift_or_scale_changes_nothing_else() -> None:
    plain = [Estimate(0.60, 0.001), Estimate(0.62, 0.02), Estimate(0.63, 0.02)]
    moved = [Estimate(10 * e.value - 3, 10 * e.se) for e in plain]

    one, other = pool(plain), pool(moved)

    assert one.value < np.mean([e.value for e in plain])
    assert (other.value, other.lo, other.hi) == pytest.approx(
        [10 * x - 3 for x in (one.value, one.lo, one.hi)]
    )
    assert (other.sd, other.sd_hi) == pytest.approx((10 * one.sd, 10 * one.sd_hi), abs=1e-9)


def test_exact_and_equal_estimates_pool_to_themselves() -> None:
    found = pool([Estimate(0.6, 0.0)] * 3)

    assert found.value == pytest.approx(0.6) and found.hi - found.lo < 1e-9
    with pytest.raises(ValueError, match="no seeds"):
        pool([])


def test_open_ends_stay_open() -> None:
    found = pool([estimate_of(0.6, 0.58, None, quantile=2.0), estimate_of(0.61, 0.6, 0.62, quantile=2.0)])

    assert found.lo is not None and found.hi is None
    assert estimate_of(0.6, None, 0.64, quantile=2.0) == Estimate(0.6, pytest.approx(0.02), True, False)
    assert estimate_of(0.6, None, None, quantile=2.0).se == 0.0


@pytest.mark.parametrize("runs", [2, *(pytest.param(more, marks=pytest.mark.deep) for more in (3, 5))])
@pytest.mark.parametrize("sd", [0.0, 0.02])
def test_the_mean_is_covered_whatever_the_variation_between_seeds(runs: int, sd: float) -> None:
    """90 % intervals, 400 recipes of runs with unequal errors; three binomial standard errors are 0.045."""
    rng, inside = np.random.default_rng(runs), 0
    for _ in range(400):
        se = 0.01 * np.exp(rng.uniform(-0.5, 0.5, runs))
        y = rng.normal(0.6, np.hypot(sd, se))
        found = pool([Estimate(*pair) for pair in zip(y, se, strict=True)])
        inside += found.lo <= 0.6 <= found.hi

    assert inside / 400 >= 0.855
    assert sd == 0.0 or inside / 400 <= 0.945


@pytest.mark.parametrize("runs", [3, 5])
def test_the_variation_between_seeds_is_covered(runs: int) -> None:
    rng, inside = np.random.default_rng(runs), 0
    for _ in range(300):
        y = rng.normal(0.6, math.hypot(0.02, 0.01), runs)
        found = pool([Estimate(v, 0.01) for v in y])
        inside += found.sd_lo <= 0.02 <= found.sd_hi

    assert 0.848 <= inside / 300 <= 0.952


@pytest.mark.long_form
@pytest.mark.parametrize("runs, recipes", [(3, examples(30)), (5, examples(20))])
def test_the_ceiling_of_simulated_recipes_is_covered(runs: int, recipes: int) -> None:
    """Whole curves, fitted, then pooled; the bound is three binomial standard errors below 90 %."""
    found = [joint(recipe(seed, runs)) for seed in range(recipes)]

    inside = np.mean([one.parameters["A"].lo <= 0.61 <= one.parameters["A"].hi for one in found])
    assert inside >= 0.9 - 3 * math.sqrt(0.09 / recipes)
    sds = [one.parameters["A"].sd for one in found]
    assert 0.005 < np.sqrt(np.mean(np.square(sds))) < 0.015  # truly 0.01


def test_the_mean_curve_lies_between_the_runs() -> None:
    fits = recipe(0, 3)

    found = joint(fits)

    at = np.array([50.0, 100.0, 600.0])
    each = np.array([one.predict(at) for one in fits])
    assert (each.min(axis=0) <= found.predict(at)).all() and (found.predict(at) <= each.max(axis=0)).all()
    b = found.parameters["B"]
    assert b.lo < b.value < b.hi and b.value == pytest.approx(1.9, rel=0.3)
    assert found.interval("C_mid")[0] < 100.0 < found.interval("C_mid")[1]
    assert found.identified == 3 and "differ by a standard deviation" in found.message


def test_order_and_unit_do_not_matter() -> None:
    fits = recipe(1, 3)

    one, other = joint(fits), joint(fits[::-1])

    assert one.interval("A") == pytest.approx(other.interval("A"))
    assert joint(fits, level=0.5).interval("A")[0] > one.interval("A")[0]


def test_one_run_keeps_its_own_interval_and_says_what_it_cannot() -> None:
    fit = run(0)

    found = joint([fit])

    for name in ("A", "B", "C_mid"):
        assert found.interval(name) == fit.interval(name)
        assert found.parameters[name].value == pytest.approx(fit.params[name])
        assert found.parameters[name].sd is None
    assert "one seed cannot tell" in found.message


def test_a_run_that_has_not_bent_leaves_the_ceiling_open_above() -> None:
    short = run(5, times=0.6)
    assert short.status == "not_identified"

    found = joint([*recipe(0, 2), short])

    assert found.interval("A")[1] is None and found.parameters["A"].runs == 2
    assert "1 of 3 runs do not identify the ceiling" in found.message
    alone = joint([short])
    assert alone.parameters["A"] is None and alone.interval("A") == (None, None)
    assert alone.message.startswith("not identified")
    with pytest.raises(ValueError, match="not identified"):
        alone.predict(3.0)


def test_what_cannot_be_pooled_is_refused() -> None:
    fit = run(0)
    other = scaling.fit(fit.data.compute, fit.data.reward, form="logistic")

    with pytest.raises(scaling.InputError, match="no runs"):
        joint([])
    with pytest.raises(scaling.InputError, match="different forms"):
        joint([fit, other])
    with pytest.raises(scaling.InputError, match="level"):
        joint([fit], level=1.0)


def test_the_margin_of_several_seeds_is_where_the_next_run_falls() -> None:
    rng, inside = np.random.default_rng(7), 0
    for _ in range(400):
        y = rng.normal(0.6, math.hypot(0.02, 0.01), 4)
        found = pool([Estimate(v, 0.01) for v in y[:3]])
        inside += abs(y[3] - found.value) <= margin(found).value

    assert 0.855 <= inside / 400 <= 0.96


def test_three_runs_like_the_papers_give_a_wider_margin_than_it_assumes() -> None:
    found = pool([Estimate(a, 0.002) for a in (0.6025, 0.61, 0.6175)])  # 0.015 apart

    result = margin(found)

    assert 0.02 < result.value < 0.03
    assert result.lo < 0.02 < result.hi
    assert "from 3 runs" in result.text and f"{result.value:.3f}" in result.text


def test_the_margin_of_one_seed_needs_a_variation_from_elsewhere() -> None:
    alone = pool([Estimate(0.6, 0.004)])

    paper = Between(0.015 / 1.693, 2.0, "3 runs of arXiv 2510.13786")
    silent, told = margin(alone), margin(alone, elsewhere=paper)

    assert silent.value is None and "one seed cannot tell" in silent.text
    assert told.value == pytest.approx(math.hypot(1.645 * 0.004, 2.92 * 0.015 / 1.693), rel=1e-3)
    assert "not measured on this recipe" in told.text and "2510.13786" in told.text
    known = Between(0.01, 1e9, "a study of ten seeds")
    assert margin(alone, elsewhere=known).value < told.value


def test_the_variation_of_exact_estimates_is_the_posterior_of_its_prior() -> None:
    """(prior.dof prior.sd**2 + sum of squares) / all degrees of freedom, where the estimates carry no noise."""
    recipes = [
        [Estimate(0.50, 0.0), Estimate(0.52, 0.0)],
        [Estimate(0.3, 0.0), Estimate(0.33, 0.0), Estimate(0.36, 0.0)],
    ]
    found = variation(recipes, Between(0.01, 5.0, "elsewhere"))
    assert found.sd == pytest.approx(math.sqrt((5 * 0.01**2 + 2 * 0.01**2 + 2 * 0.03**2) / 8), rel=1e-6)
    assert found.dof == 8.0
