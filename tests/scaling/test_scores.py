"""Scores against formulas written down independently, and that honesty pays: the scores are proper."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from scaling import InputError, scores
from tests.deep import examples

LEVELS = st.floats(0.05, 0.99)
RATES = st.floats(0.0, 1.0)
CHANCES = st.floats(0.001, 0.999)
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy


@unhurried
@given(RATES, RATES, st.floats(-1.0, 2.0), LEVELS)
def test_interval_score_is_the_published_formula(a, b, y, level):
    """Gneiting and Raftery 2007, eq. 43, term by term."""
    lo, hi = sorted((a, b))
    alpha = 1 - level
    expected = hi - lo
    if y < lo:
        expected += 2 / alpha * (lo - y)
    if y > hi:
        expected += 2 / alpha * (y - hi)

    assert float(scores.interval_score(lo, hi, y, level)) == pytest.approx(expected)


@unhurried
@given(RATES, RATES, st.floats(-1.0, 2.0), LEVELS)
def test_interval_score_is_the_sum_of_two_pinball_losses(a, b, y, level):
    """An independent way to the same number: 2 / alpha times the quantile losses of both ends."""
    lo, hi = sorted((a, b))
    alpha = 1 - level

    def pinball(quantile, tau):
        return (tau if y >= quantile else tau - 1) * (y - quantile)

    both = 2 / alpha * (pinball(lo, alpha / 2) + pinball(hi, 1 - alpha / 2))
    assert float(scores.interval_score(lo, hi, y, level)) == pytest.approx(both, abs=1e-9)


@settings(unhurried, max_examples=examples(20))
@given(
    st.floats(0.2, 0.8), st.floats(0.01, 0.2), st.floats(0.5, 0.98), st.floats(0.3, 3.0), st.floats(-1.0, 1.0)
)
def test_honest_quantiles_have_the_least_expected_interval_score(mean, sd, level, stretch, shift):
    """By quadrature under a normal belief: any other interval costs at least as much."""
    z = stats.norm.ppf(0.5 + level / 2)

    def expected(lo, hi):
        density = lambda y: stats.norm.pdf(y, mean, sd) * float(scores.interval_score(lo, hi, y, level))
        ends = [mean - 9 * sd, *sorted((lo, hi)), mean + 9 * sd]
        return sum(quad(density, a, b)[0] for a, b in zip(ends, ends[1:], strict=False) if b > a)

    honest = expected(mean - z * sd, mean + z * sd)
    other = expected(mean + shift * sd - stretch * z * sd, mean + shift * sd + stretch * z * sd)
    assert honest <= other + 1e-6


def test_the_expected_interval_score_of_a_normal_belief_in_closed_form():
    """2 sd phi(z) / (alpha / 2), the width included."""
    level, z = 0.9, stats.norm.ppf(0.95)
    y = np.random.default_rng(0).standard_normal(400_000)
    mean = float(scores.interval_score(-z, z, y, level).mean())

    assert mean == pytest.approx(2 * stats.norm.pdf(z) / 0.05, rel=0.01)


def test_interval_scores_of_many_at_once():
    found = scores.interval_score([0.5, 0.5, 0.5], [0.6, 0.6, 0.6], [0.55, 0.4, 0.7], [0.9, 0.9, 0.5])
    assert found == pytest.approx([0.1, 0.1 + 20 * 0.1, 0.1 + 4 * 0.1])


@pytest.mark.parametrize(
    ("lo", "hi", "level"),
    [(0.6, 0.5, 0.9), (0.5, 0.6, 0.0), (0.5, 0.6, 1.0), (math.nan, 0.6, 0.9), (0.5, 0.6, math.nan)],
)
def test_impossible_intervals(lo, hi, level):
    with pytest.raises(ValueError):
        scores.interval_score(lo, hi, 0.5, level)


@unhurried
@given(CHANCES, st.booleans())
def test_brier_and_log_scores_are_their_formulas(p, happened):
    assert float(scores.brier_score(p, happened)) == pytest.approx((p - (1 if happened else 0)) ** 2)
    likelihood = stats.bernoulli.logpmf(int(happened), p)
    assert float(scores.log_score(p, happened)) == pytest.approx(-likelihood)


@unhurried
@given(CHANCES, CHANCES)
def test_honest_probabilities_have_the_least_expected_scores(truth, said):
    for score in (scores.brier_score, scores.log_score):
        expected = lambda p, score=score: truth * float(score(p, True)) + (1 - truth) * float(score(p, False))
        assert expected(truth) <= expected(said) + 1e-12


def test_calling_the_impossible():
    assert scores.log_score(0.0, True) == math.inf
    assert scores.log_score(1.0, True) == 0.0
    for p in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError):
            scores.brier_score(p, True)
        with pytest.raises(ValueError):
            scores.log_score(p, True)


@unhurried
@given(st.integers(1, 200), st.data(), st.floats(0.5, 0.99))
def test_clopper_pearson_is_scipys(n, data, level):
    k = data.draw(st.integers(0, n))
    lo, hi = scores.clopper_pearson(k, n, level)
    expected = stats.binomtest(k, n).proportion_ci(level, method="exact")

    assert (lo, hi) == (pytest.approx(expected.low, abs=1e-6), pytest.approx(expected.high, abs=1e-6))
    assert lo <= k / n <= hi


@pytest.mark.parametrize("truth", [0.5, 0.8, 0.9, 0.99])
@pytest.mark.parametrize("n", [3, 10, 40])
def test_clopper_pearson_covers_at_least_its_level(truth, n):
    """Summed over every count that may come."""
    covered = sum(
        stats.binom.pmf(k, n, truth)
        for k in range(n + 1)
        if scores.clopper_pearson(k, n, 0.9)[0] <= truth <= scores.clopper_pearson(k, n, 0.9)[1]
    )
    assert covered >= 0.9


@pytest.mark.parametrize(("k", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_no_proportion(k, n):
    with pytest.raises(ValueError):
        scores.clopper_pearson(k, n)


def test_no_level():
    with pytest.raises(InputError):
        scores.clopper_pearson(1, 2, 1.0)


@unhurried
@given(st.lists(st.tuples(st.booleans(), LEVELS), min_size=1, max_size=60))
def test_coverage_counts(pairs):
    inside, levels = [one for one, _ in pairs], [level for _, level in pairs]
    found = scores.coverage(inside, levels)

    assert (found.n, found.inside) == (len(pairs), sum(inside))
    assert found.observed == pytest.approx(np.mean(inside))
    assert found.claimed == pytest.approx(np.mean(levels))
    assert found.lo <= found.observed <= found.hi


def test_coverage_of_nothing():
    found = scores.coverage([], [])
    assert (found.n, found.observed, found.claimed, found.lo) == (0, None, None, None)
    with pytest.raises(ValueError):
        scores.coverage([True], [])


@unhurried
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=80), st.integers(1, 10))
def test_reliability_bins_hold_everything_once(pairs, bins):
    p, came = [one for one, _ in pairs], [one for _, one in pairs]
    found = scores.reliability(p, came, bins=bins)

    assert sum(one.n for one in found) == len(pairs)
    assert sum(one.n * one.mean for one in found) == pytest.approx(sum(p))
    assert sum(one.n * one.happened for one in found) == pytest.approx(sum(came))
    for one in found:
        assert one.start - 1e-9 <= one.mean <= one.end + 1e-9
        assert one.lo <= one.happened <= one.hi


def test_a_relative_score_below_one_is_better():
    rng = np.random.default_rng(3)
    base = rng.gamma(2.0, 0.05, 60)
    value, lo, hi = scores.relative_score(0.7 * base, base)
    assert (value, lo, hi) == pytest.approx((0.7, 0.7, 0.7))
    own = base * rng.uniform(0.5, 1.2, 60)
    value, lo, hi = scores.relative_score(own, base)
    assert value == pytest.approx(own.mean() / base.mean())
    assert lo < value < hi
    # SciPy's own bootstrap of the same ratio
    ratio = lambda s, b, axis=-1: s.mean(axis=axis) / b.mean(axis=axis)
    theirs = stats.bootstrap(
        (own, base),
        ratio,
        paired=True,
        vectorized=True,
        confidence_level=0.9,
        method="percentile",
        random_state=0,
    ).confidence_interval
    assert (lo, hi) == (pytest.approx(theirs.low, abs=0.01), pytest.approx(theirs.high, abs=0.01))


@pytest.mark.parametrize(("own", "base"), [([], []), ([1.0], []), ([1.0], [0.0])])
def test_no_relative_score(own, base):
    with pytest.raises(ValueError):
        scores.relative_score(own, base)
