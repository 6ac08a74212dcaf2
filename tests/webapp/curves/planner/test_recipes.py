"""The planner's numbers are those of `scaling.plan`; what is not identified has no point."""

import numpy as np
import pytest

import scaling
from scaling import plan
from webapp.curves.planner import recipes as planner
from webapp.curves.planner import runs as planner_runs
from webapp.curves.planner.recipes import Candidate


def make_fit(a=0.6, b=2.0, *, to=8.0, n=40, seed=0, noise=0.004):
    rng = np.random.default_rng(seed)
    hours = np.geomspace(0.1, to, n)
    return scaling.fit(hours, 0.2 + (a - 0.2) / (1 + hours**-b) + noise * rng.standard_normal(n))


def candidate(name, *fits):
    return Candidate(name, name.lower(), 1, {f"{name}-{i}": fit for i, fit in enumerate(fits)})


@pytest.fixture(scope="module")
def good():
    return candidate("Good", make_fit(0.7))


@pytest.fixture(scope="module")
def poor():
    return candidate("Poor", make_fit(0.5, seed=1))


@pytest.fixture(scope="module")
def early():
    return candidate("Early", make_fit(to=0.6, n=12, seed=2))


@pytest.fixture(scope="module")
def seeded():
    return candidate("Seeded", *(make_fit(0.6 + 0.01 * s, seed=s) for s in range(3)))


def test_a_target_takes_what_the_plan_says(good, poor):
    reached, never = planner.to_target([poor, good], 0.6)

    rule = plan.compute_to(good.seeds[0], 0.6, n=planner.N)
    assert (reached["name"], reached["compute"]) == ("Good", rule.compute)
    assert (reached["lo"], reached["hi"]) == rule.interval
    assert never["verdict"] == "never"
    assert never["above_ceiling"] == plan.compute_to(poor.seeds[0], 0.6, n=planner.N).above_ceiling
    assert (
        "Poor never reaches 0.6: it lies above the ceiling with probability above 0.99" in never["sentence"]
    )


def test_what_is_not_identified_gives_no_hours_beyond_its_points(early):
    (row,) = planner.to_target([early], 0.55)

    assert row["verdict"] == "not identified"
    assert row["compute"] is None
    assert "nobody knows" in row["sentence"]


def test_what_was_reached_already_is_known_without_a_ceiling(early):
    fit = early.seeds[0]
    target = float(fit.predict(0.5))

    assert planner.to_target([early], target)[0]["compute"] == plan.compute_to(fit, target).compute


def test_a_target_below_the_start_costs_nothing(good):
    assert "starts at 0.1 or above" in planner.to_target([good], 0.1)[0]["sentence"]


def test_seeds_reach_a_target_where_their_pooled_curve_does(seeded):
    (row,) = planner.to_target([seeded], 0.55)

    value, lo, hi = planner.expected(seeded, row["compute"])
    assert value == pytest.approx(0.55, abs=2e-3)  # the grid is straight between its points
    assert planner.expected(seeded, row["lo"])[2] == pytest.approx(0.55, abs=2e-3)
    assert planner.expected(seeded, row["hi"])[1] == pytest.approx(0.55, abs=2e-3)
    assert lo < 0.55 < hi


def test_seeds_never_reach_what_lies_above_their_pooled_ceiling(seeded):
    (row,) = planner.to_target([seeded], 0.63)

    assert (row["verdict"], row["compute"], row["hi"]) == ("never", None, None)
    assert row["above_ceiling"] > 0.5
    band_reaches = row["lo"] is not None
    assert ("is not expected to reach 0.63" in row["sentence"]) == band_reaches
    (far,) = planner.to_target([seeded], 0.9)
    assert far["lo"] is None
    assert "never reaches 0.9" in far["sentence"]
    assert planner.to_target([seeded], 0.605)[0]["hi"] is None  # the band may end below it


def test_a_budget_buys_what_the_fit_predicts(good, poor):
    rows = planner.at_budget([poor, good], 16.0)

    fit = good.seeds[0]
    assert rows[0]["value"] == float(fit.predict(16.0))
    assert (rows[0]["lo"], rows[0]["hi"]) == tuple(float(end) for end in fit.predict_interval(16.0, 0.9))
    assert rows[0]["best_text"] == "over 99 %"
    assert "Good is the likeliest best" in planner.budget_sentences(rows, 16.0)[0]


def test_of_those_that_cannot_win_the_higher_stands_first_and_goes_on(good):
    low, middle = candidate("A, lowest", make_fit(0.35, seed=4)), candidate("Middle", make_fit(0.55, seed=5))

    rows = planner.at_budget([low, middle, good], 8.02)
    runs = planner_runs.to_continue({one.name: one.seeds[0] for one in (low, middle, good)}, 2, 10.0)

    assert [row["name"] for row in rows] == ["Good", "Middle", "A, lowest"]
    assert [row["run"] for row in runs["rows"] if row["keep"]] == ["Good", "Middle"]
    assert {row["beyond_text"] for row in rows} == {"within its evaluations"}
    assert planner.at_budget([good], 16.0)[0]["beyond_text"] == "2.0 × as far as it has been seen"


def test_with_one_seed_each_the_chances_are_those_of_the_plan(good, poor, early):
    candidates = [good, poor, early]

    rule = plan.which_to_continue({one.name: one.seeds[0] for one in candidates}, 16.0, n=planner.N)
    expected = {one.name: one.best for one in rule.candidates}
    found = planner.best_chances(candidates, 16.0)
    assert dict(zip([one.name for one in candidates], found, strict=True)) == expected


def test_beyond_its_points_an_unidentified_recipe_has_an_interval_only(early, good):
    rows = {row["name"]: row for row in planner.at_budget([early, good], 16.0)}

    assert rows["Early"]["value"] is None
    assert rows["Early"]["lo"] < rows["Early"]["hi"]
    assert "rests on a flat prior" in planner.budget_sentences(list(rows.values()), 16.0)[-1]
    drawn = planner.budget_chart([early], 16.0)["series"][0]
    assert all(y is None for x, y in zip(drawn["x"], drawn["y"], strict=True) if x > drawn["solid_until"])


def test_seeds_widen_the_band(seeded):
    value, lo, hi = planner.expected(seeded, 8.0)
    one = seeded.seeds[0].predict_interval(8.0, 0.9)

    assert hi - lo > float(one[1] - one[0])
    assert lo < value < hi
    assert sum(planner.best_chances([seeded, candidate("Poor", make_fit(0.5))], 8.0)) == pytest.approx(1.0)


def test_which_to_continue_is_the_plans_choice_with_equal_shares():
    fits = {name: make_fit(a, seed=s) for s, (name, a) in enumerate({"a": 0.6, "b": 0.7, "c": 0.5}.items())}

    found = planner_runs.to_continue(fits, 2, 10.0)

    rule = plan.which_to_continue(fits, plan.after(fits, 5.0), n=planner.N)
    assert [(row["run"], row["best"]) for row in found["rows"]] == [(c.name, c.best) for c in rule.candidates]
    assert [row["keep"] for row in found["rows"]] == [True, True, False]
    assert found["rows"][0]["until"] == pytest.approx(13.0)
    assert "5.00 of the 10.0 device-hours" in found["rule"]


def test_keeping_all_is_no_choice(good):
    found = planner_runs.to_continue(good.fits, 1, 10.0)

    assert found["sentence"] == "All of them can go on: there is nothing to choose."


def test_gains_are_those_of_the_plan_the_greatest_first():
    fits = {"done": make_fit(0.6, to=30.0), "young": make_fit(0.6, to=3.0, seed=1)}

    rows = planner_runs.gains(fits, 4.0)

    assert [row["run"] for row in rows] == ["young", "done"]
    assert (rows[0]["gain"], rows[0]["lo"], rows[0]["hi"]) == plan.gain(fits["young"], 3.0, 7.0, level=0.9)
    assert rows[1]["verdict"] == "less than the noise of one evaluation"


def test_nothing_to_plan_with_is_nothing_said():
    assert planner.budget_sentences([], 1.0) == []
    assert planner.best_chances([], 1.0) == []
    assert planner.budget_chart([], 1.0)["series"] == []
    assert "No fitted run" in planner_runs.gain_sentence([], {}, 1.0)
    assert planner_runs.to_continue({}, 1, 1.0)["sentence"] == "No run has a curve to judge yet."
