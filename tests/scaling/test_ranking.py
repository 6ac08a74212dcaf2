import numpy as np
import pytest

from scaling.course import Course
from scaling.points import InputError
from scaling.ranking import (
    ALONE,
    REAL,
    Forecast,
    N,
    chance,
    compared,
    gap,
    mean_of,
    over,
    seeds_of,
    standings,
    variation_of,
)
from scaling.seeds import CORPUS, Between

KNOWN = Between(0.01, 1e6, "here")  # a variation between seeds that is known


def forecast(value: float, half: float = 0.005) -> Forecast:
    return value, value - half, value + half


def test_one_seed_each_has_to_differ_by_more_than_seeds_do() -> None:
    """Without any error of the forecast the sd of the difference is sqrt(2) times that of seeds."""
    base = mean_of([forecast(0.7, 0.0)], KNOWN)
    near, far = (mean_of([forecast(0.7 + d, 0.0)], KNOWN) for d in (0.0270, 0.0285))
    assert not gap(near, base, KNOWN).real
    found = gap(far, base, KNOWN)
    assert found.real and found.level == REAL
    assert found.hi - found.value == pytest.approx(1.959964 * 0.01 * np.sqrt(2), rel=1e-4)


def test_a_variation_known_from_few_seeds_asks_for_more() -> None:
    few = Between(0.01, 4.0, "here")
    a, b = mean_of([forecast(0.735, 0.0)], few), mean_of([forecast(0.7, 0.0)], few)
    assert gap(a, b, KNOWN).real and not gap(a, b, few).real
    assert gap(a, b, few).value - gap(a, b, few).lo == pytest.approx(2.776445 * 0.01 * np.sqrt(2), rel=1e-4)


def test_more_seeds_tell_smaller_differences_apart() -> None:
    def pair(seeds: int) -> bool:
        a, b = (mean_of([forecast(value, 0.001)] * seeds, KNOWN) for value in (0.716, 0.7))
        return gap(a, b, KNOWN).real

    assert [pair(seeds) for seeds in (1, 2, 4)] == [False, False, True]


def test_seeds_do_not_lessen_what_the_form_errs_by() -> None:
    many = mean_of([forecast(0.7, 0.0329)] * 1000, KNOWN)  # 0.0329: two standard errors of 0.01 at 90 %
    assert many.below == many.above == pytest.approx(0.02, rel=1e-2)
    assert many.seed_share == pytest.approx(1e-3)


def test_each_side_of_an_interval_counts_for_itself() -> None:
    a, b = mean_of([(0.75, 0.745, 0.85)], KNOWN), mean_of([(0.7, 0.695, 0.705)], KNOWN)
    assert gap(a, b, KNOWN).hi - 0.05 > 2 * (0.05 - gap(a, b, KNOWN).lo)
    mirrored = gap(b, a, KNOWN)
    assert (mirrored.lo, mirrored.hi) == pytest.approx((-gap(a, b, KNOWN).hi, -gap(a, b, KNOWN).lo))


def test_ranks_count_who_is_really_better() -> None:
    """A short run with a wide interval takes nobody's rank, though its value is the highest."""
    values = [(0.75, 0.60, 0.85), forecast(0.72), forecast(0.70), forecast(0.60)]
    found = standings([mean_of([one], KNOWN) for one in values], KNOWN)
    assert [one.rank for one in found] == [1, 1, 1, 3]
    assert sum(one.chance for one in found) == pytest.approx(1.0)
    assert found[3].chance < 0.01 < found[2].chance < found[1].chance


def test_equals_share_the_chance_and_the_numbers_are_the_same_each_time() -> None:
    means = [mean_of([forecast(0.7)], CORPUS)] * 2
    first, again = standings(means, CORPUS), standings(means, CORPUS)
    assert first == again
    assert first[0].chance == pytest.approx(0.5, abs=3.0 / np.sqrt(N))
    assert [one.rank for one in first] == [1, 1]


def test_intervals_hold_the_seeds_and_stay_pass_rates() -> None:
    (alone,) = standings([mean_of([forecast(0.99)], CORPUS)], CORPUS)
    assert alone.hi == 1.0 and alone.lo < 0.985
    assert alone.chance == 1.0 and alone.rank == 1


def test_values_that_know_of_seeds_already_get_nothing_on_top() -> None:
    (alone,) = standings([mean_of([forecast(0.61, 0.02)], ALONE)], ALONE)
    assert (alone.lo, alone.hi) == pytest.approx((0.59, 0.63), abs=1e-6)


def test_a_thousand_recipes_are_ranked_at_once() -> None:
    rng = np.random.default_rng(1)
    means = [mean_of([forecast(value)], CORPUS) for value in rng.uniform(0.3, 0.8, 1000)]
    found = standings(means, CORPUS)
    order = sorted(found, key=lambda one: -one.value)
    assert [one.rank for one in order] == sorted(one.rank for one in found)
    assert sum(one.chance for one in found) == pytest.approx(1.0)


def test_seeds_of_a_task_tell_how_far_seeds_differ() -> None:
    rng = np.random.default_rng(2)
    recipes = [[forecast(value, 1e-9) for value in 0.6 + 0.02 * rng.standard_normal(5)] for _ in range(40)]
    found = seeds_of(recipes)
    assert found.sd == pytest.approx(0.02, rel=0.15)
    assert found.dof == 4 * 40 + CORPUS.dof
    assert found.source == "40 recipes with several seeds here and Headroom's own corpus"


def test_without_a_second_seed_the_corpus_speaks() -> None:
    assert seeds_of([]) == seeds_of([[forecast(0.7)], [forecast(0.6)]]) == CORPUS


def test_scatter_that_the_noise_explains_is_no_variation_between_seeds() -> None:
    rng = np.random.default_rng(3)
    noise = 0.03 * np.sqrt(0.5)  # the half of the error variance that is noise
    recipes = [
        [forecast(value, 1.644854 * 0.03) for value in 0.6 + noise * rng.standard_normal(3)]
        for _ in range(40)
    ]
    assert seeds_of(recipes).sd < 0.012


@pytest.mark.parametrize("runs", [[], [(float("nan"), 0.1, 0.2)], [(0.5, 0.6, 0.7)]])
def test_what_is_no_forecast_is_refused(runs: list[Forecast]) -> None:
    with pytest.raises(InputError, match="forecast"):
        mean_of(runs, CORPUS)


def flat(value: float, seen: float, half: float = 0.004, *, level: float = 0.9, message: str = "") -> Course:
    """A run that stays where it is; its interval widens with how far it is forecast."""
    if message:
        nothing = np.empty(0)
        return Course("failed", message, level, None, None, nothing, nothing, nothing, nothing, seen)
    compute = seen * np.geomspace(0.01, 1000.0, 501)
    middle, reach = np.full(501, value), half * np.maximum(1.0, compute / seen)
    ends = (value - 5 * half, value + 5 * half)
    return Course("ok", "", level, value, ends, compute, middle, middle - reach, middle + reach, seen)


def test_all_are_compared_at_the_largest_compute_that_any_has_seen() -> None:
    found = compared([[flat(0.7, 8.0)], [flat(0.65, 8.0)], [flat(0.68, 2.0, 0.01)]], CORPUS)
    assert found.here.compute == 8.0 and found.ceiling.compute is None
    assert [one and one.rank for one in found.here.standings] == [1, 2, 1]
    short = found.here.standings[2]
    assert short is not None and short.hi - short.lo > 0.06
    assert found.why == ["", "", ""] and found.here.in_order() == [0, 2, 1]
    assert found.here.gap(0, 1).real and not found.here.gap(0, 2).real  # type: ignore[union-attr]


def test_at_the_ceiling_the_forecasts_own_intervals_count() -> None:
    found = compared([[flat(0.7, 8.0)], [flat(0.665, 8.0)]], CORPUS)
    assert found.here.gap(0, 1).real and not found.ceiling.gap(0, 1).real  # type: ignore[union-attr]


def test_a_recipe_that_has_hardly_begun_is_not_compared() -> None:
    found = compared([[flat(0.7, 8.0)], [flat(0.9, 1.9)]], CORPUS)
    assert found.here.standings[1] is None and found.here.gap(0, 1) is None
    assert found.why[1] == "seen to less than a quarter of the compute that the furthest has seen (8)"
    assert found.ceiling.standings[1] is None


def test_what_has_no_forecast_says_why() -> None:
    falls = flat(0.5, 8.0, message="the pass rate falls")
    found = compared([[flat(0.7, 8.0)], [None], [falls], [flat(0.6, 8.0), falls]], CORPUS)
    assert [one is None for one in found.here.standings] == [False, True, True, False]
    assert found.why[1:] == [
        "no forecast yet",
        "the pass rate falls",
        "1 of 2 runs not in it: the pass rate falls",
    ]
    assert found.runs == [1, 0, 0, 1]


def test_before_its_evaluations_a_recipe_is_not_compared() -> None:
    found = compared([[flat(0.7, 8.0)], [flat(0.6, 2.0)]], CORPUS, 0.02)
    assert found.here.standings[0] is None and found.why[0] == "that compute lies before its evaluations"


def test_far_beyond_what_was_seen_nothing_is_compared() -> None:
    found = compared([[flat(0.7, 8.0)], [flat(0.6, 2.0)]], CORPUS, 70.0)
    assert found.here.standings[0] is not None
    assert found.why == ["", "seen to less than a tenth of the compute asked for (70)"]


def test_nothing_to_compare_is_nothing() -> None:
    assert compared([], CORPUS).here.in_order() == []
    assert compared([[None]], CORPUS).here.compute is None


@pytest.mark.parametrize("compute", [0.0, -1.0, float("inf"), float("nan")])
def test_a_compute_to_compare_at_is_above_zero(compute: float) -> None:
    with pytest.raises(InputError, match="above zero"):
        compared([[flat(0.7, 8.0)]], CORPUS, compute)


def test_forecasts_of_other_levels_are_refused() -> None:
    with pytest.raises(InputError, match="levels"):
        compared([[flat(0.7, 8.0)], [flat(0.7, 8.0, level=0.5)]], CORPUS)


def test_seeds_are_held_against_each_other_where_the_shortest_of_them_ends() -> None:
    runs = [flat(0.7, 2.0, 1e-6), flat(0.74, 8.0, 1e-6)]
    assert variation_of([runs, [None]], Between(0.01, 4.0, "x")).sd == pytest.approx(
        np.sqrt((4 * 0.01**2 + 2 * 0.02**2) / 5), rel=1e-3
    )
    assert variation_of([[flat(0.7, 2.0)], []]) == CORPUS


def test_no_share_of_draws_is_called_certain() -> None:
    shares = (0.0, 0.004, 0.012, 0.5, 0.985, 0.996, 1.0)
    said = ["below 0.01", "below 0.01", "0.01", "0.50", "0.98", "above 0.99", "above 0.99"]
    assert [chance(p) for p in shares] == said


def test_a_recipe_over_compute_is_what_comparisons_say_at_each() -> None:
    runs = [flat(0.7, 8.0), flat(0.72, 8.0), None]
    at = np.array([1.0, 5.0, 20.0, 1e9])

    found = over(runs, KNOWN, at)

    for m in (0, 1, 2):
        told = compared([runs], KNOWN, float(at[m])).here.interval(0)
        assert (found.value[m], found.lo[m], found.hi[m]) == pytest.approx(told)
    assert found.runs.tolist() == [2, 2, 2, 0]
    assert np.isnan([found.value[3], found.lo[3], found.hi[3]]).all()
    assert np.isnan(over([None], KNOWN, at).value).all()


def test_a_run_that_was_stopped_early_takes_no_part_in_its_recipes_curve() -> None:
    at = np.array([5.0])
    with_early = over([flat(0.7, 8.0), flat(0.5, 1.0)], KNOWN, at)

    assert with_early.value[0] == over([flat(0.7, 8.0)], KNOWN, at).value[0]
    assert with_early.runs.tolist() == [1]
