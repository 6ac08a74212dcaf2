"""Many pooled values at once: the same as `scaling.seeds.pool` and `joint`; crossings of means; who is the highest."""

import numpy as np
import pytest

import scaling
from scaling import compare, seeds
from scaling.recipes import Columns, crossing_of_means, pool_columns

LEVEL = 0.9
Z = 1.6448536269514722


def runs(n=3, a=0.6, b=2.0, c_mid=1.0, start=0):
    hours = np.geomspace(0.1, 8.0, 40)
    fits = []
    for seed in range(start, start + n):
        rng = np.random.default_rng(seed)
        ceiling = a + 0.006 * rng.standard_normal()
        rates = 0.2 + (ceiling - 0.2) / (1 + (c_mid / hours) ** b) + 0.005 * rng.standard_normal(40)
        fits.append(scaling.fit(hours, rates))
    return fits


def mean_curve(fits, compute) -> Columns:
    """The mean curve of one recipe's runs at computes, with the interval of that mean."""
    at = np.array(compute)
    lo, hi = zip(*(fit.predict_interval(at, LEVEL) for fit in fits), strict=True)
    quantiles = [fit.likelihood.noise.quantile(LEVEL) for fit in fits]
    return pool_columns([fit.predict(at) for fit in fits], lo, hi, quantile=quantiles, level=LEVEL)


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_columns_are_pooled_as_one_by_one(k):
    rng = np.random.default_rng(k)
    value = rng.normal(0.6, 0.02, (k, 20))
    half = rng.uniform(0.002, 0.03, (k, 20))

    columns = pool_columns(value, value - half, value + half, quantile=Z, level=LEVEL)

    for m in range(20):
        one = seeds.pool(
            [seeds.Estimate(v, h / Z) for v, h in zip(value[:, m], half[:, m], strict=True)], level=LEVEL
        )
        assert (columns.value[m], columns.lo[m], columns.hi[m]) == pytest.approx(
            (one.value, one.lo, one.hi), rel=1e-9
        )


def test_runs_that_say_nothing_leave_no_trace_and_open_ends_stay_open():
    value = np.array([[0.6, 0.6], [0.61, 0.61], [np.nan, 0.7]])
    lo, hi = value - 0.01, value + 0.01
    hi[2, 1] = np.inf

    columns = pool_columns(value, lo, hi, quantile=Z)

    two = seeds.pool([seeds.Estimate(v, 0.01 / Z) for v in (0.6, 0.61)])
    assert columns.runs.tolist() == [2, 2]
    assert columns.value == pytest.approx([two.value] * 2)
    assert columns.hi.tolist() == [pytest.approx(two.hi), np.inf]
    assert columns.lo == pytest.approx([two.lo] * 2)


def test_without_any_closed_interval_there_is_no_value():
    columns = pool_columns([[0.6], [0.7]], [[0.5], [0.6]], [[np.inf], [np.inf]], quantile=Z)

    assert np.isnan(columns.value[0])


def test_the_parameters_are_those_of_the_joint_estimate():
    fits = runs()
    joint = seeds.joint(fits)

    for name in ("A", "R0"):
        ends = [fit.interval(name) for fit in fits]
        quantile = [fit.likelihood.noise.quantile(LEVEL) for fit in fits]
        columns = pool_columns(
            [[fit.params[name]] for fit in fits],
            [[lo] for lo, _ in ends],
            [[hi] for _, hi in ends],
            quantile=quantile,
        )
        pooled = joint.parameters[name]
        assert (columns.value[0], columns.lo[0], columns.hi[0]) == pytest.approx(
            (pooled.value, pooled.lo, pooled.hi)
        )


def test_the_mean_curve_ends_at_the_joint_ceiling_and_holds_the_truth():
    fits = runs()
    curve = mean_curve(fits, [1.0, 4.0, 1e9])

    assert curve.value[2] == pytest.approx(seeds.joint(fits).parameters["A"].value, abs=1e-4)
    assert (curve.lo <= curve.value).all() and (curve.value <= curve.hi).all()
    assert curve.lo[0] < 0.4 < curve.hi[0]


def test_the_mean_curve_of_one_run_is_its_own():
    (fit,) = runs(1)
    curve = mean_curve([fit], [2.0])

    lo, hi = fit.predict_interval([2.0])
    assert (curve.value[0], curve.lo[0], curve.hi[0]) == pytest.approx((fit.predict(2.0), lo[0], hi[0]))


def test_means_cross_where_they_were_made_to():
    """One recipe is faster, the other tops out higher: 0.3 / (1 + 0.25 / c**2) = 0.4 / (1 + 1 / c**2) at c = 2**0.5."""
    grid = np.geomspace(0.1, 80, 400)
    covered = 0
    for start in range(0, 120, 6):
        fast, high = runs(a=0.5, c_mid=0.5, start=start), runs(a=0.6, c_mid=1.0, start=start + 3)
        crossing = crossing_of_means(mean_curve(fast, grid), mean_curve(high, grid), grid)
        lo, hi = crossing.interval
        covered += lo < 2**0.5 < hi
        assert crossing.compute == pytest.approx(2**0.5, rel=0.1)
        assert crossing.a_after is False

    assert 15 <= covered <= 20


def test_means_that_do_not_cross_say_so():
    grid = np.geomspace(0.5, 80, 100)
    crossing = crossing_of_means(mean_curve(runs(a=0.7), grid), mean_curve(runs(a=0.5, start=9), grid), grid)

    assert crossing.compute is None
    assert crossing.a_after is True


def test_one_recipes_ceiling_is_that_of_the_comparison():
    """`compare.recipe_ceiling` and the columns agree where intervals are normal."""
    ceilings = [(0.6, 0.59, 0.61), (0.62, 0.6, 0.64), (0.61, 0.605, 0.615)]
    value, lo, hi = zip(*ceilings, strict=True)

    columns = pool_columns(*([[v] for v in each] for each in (value, lo, hi)), quantile=Z)

    assert (columns.value[0], columns.lo[0], columns.hi[0]) == pytest.approx(compare.recipe_ceiling(ceilings))
