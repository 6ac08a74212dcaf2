"""The planner's numbers are those of the stored forecasts; beyond them nothing is said."""

import numpy as np
import pytest

import scaling
from scaling.ranking import Reached
from scaling.seeds import CORPUS
from webapp.science.curves import planner
from webapp.science.curves.planner import Candidate
from webapp.science.curves.ranking.variation import forecast_now


def make_fit(a=0.6, b=2.0, *, to=8.0, n=40, seed=0, noise=0.004):
    rng = np.random.default_rng(seed)
    hours = np.geomspace(0.1, to, n)
    return scaling.fit(hours, 0.2 + (a - 0.2) / (1 + hours**-b) + noise * rng.standard_normal(n))


def candidate(name, *fits):
    own = {f"{name}-{i}": fit for i, fit in enumerate(fits)}
    courses = {run: forecast_now(fit) for run, fit in own.items()}
    return Candidate(name, name.lower(), 1, own, courses, CORPUS)


def courses_of(**fits):
    return {name: forecast_now(fit) for name, fit in fits.items()}


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


def test_a_target_is_reached_where_the_forecast_crosses_it(good, poor):
    reached, never = planner.to_target([poor, good], 0.6)

    assert reached["name"] == "Good"
    assert good.at(reached["compute"]).value == pytest.approx(
        0.6, abs=3e-3
    )  # the grid is straight between its points
    assert good.at(reached["lo"]).hi == pytest.approx(0.6, abs=3e-3)
    assert good.at(reached["hi"]).lo == pytest.approx(0.6, abs=3e-3)
    assert (never["verdict"], never["compute"]) == ("never", None)
    assert never["above_ceiling"] > 0.9
    assert "Poor is not expected to reach 0.6: 0.6 lies above its forecast ceiling with" in never["sentence"]


def test_beyond_ten_times_what_was_seen_nothing_is_said(early):
    (row,) = planner.to_target([early], 0.9 * early.at(None).value)
    (far,) = planner.to_target([early], 0.999)

    assert row["compute"] is None or row["compute"] <= 10 * early.seen
    assert far["compute"] is None and far["verdict"] == "never"


def test_a_target_below_the_start_costs_nothing(good):
    assert "starts at 0.1 or above" in planner.to_target([good], 0.1)[0]["sentence"]


def test_the_chance_that_a_target_lies_above_the_ceiling():
    ceiling = Reached(0.6, 0.56, 0.62)

    assert planner.above_ceiling(ceiling, 0.62) == pytest.approx(0.95, abs=1e-3)
    assert planner.above_ceiling(ceiling, 0.56) == pytest.approx(0.05, abs=1e-3)
    assert planner.above_ceiling(None, 0.56) is None


def test_a_budget_buys_what_is_forecast(good, poor):
    rows, said = planner.at_budget([poor, good], 16.0)

    value, lo, _ = (float(column[0]) for column in good.courses["Good-0"].at(np.array([16.0])))
    assert rows[0]["at_budget"] == pytest.approx(value)
    assert rows[0]["at_budget_lo"] < lo  # seeds are in it
    assert rows[0]["at_budget_chance_text"] == "above 0.99"
    assert rows[0]["beyond_text"] == "2.0 × as far as it has been seen"
    assert said[0].startswith("Good leads: at 16.0 device-hours it comes to 0.70")


def test_a_recipe_that_is_not_compared_says_why(good, early):
    rows, said = planner.at_budget([early, good], 16.0)

    assert [row["name"] for row in rows] == ["Good", "Early"]
    assert rows[1]["at_budget"] is None
    assert (
        rows[1]["at_budget_span"]
        == "seen to less than a quarter of the compute that the furthest has seen (8)"
    )
    drawn = planner.budget_chart([early], 16.0)["series"][0]
    assert max(drawn["x"]) <= 10 * early.seen * 1.001
    assert len(drawn["x"]) == len(drawn["y"]) == len(drawn["lo"]) == len(drawn["hi"])


def test_a_curve_ends_where_its_shortest_run_is_forecast_no_further():
    two = candidate("Two", make_fit(0.6), make_fit(0.6, to=3.0, seed=1))

    assert two.drawn[0][-1] == pytest.approx(30.0)
    assert two.at(40.0) is not None  # by the other alone


def test_seeds_narrow_what_seeds_differ_by(seeded):
    alone = candidate("Alone", seeded.seeds[1])

    assert seeded.at(8.0).hi - seeded.at(8.0).lo < alone.at(8.0).hi - alone.at(8.0).lo


def test_the_likeliest_best_go_on_with_equal_shares():
    courses = courses_of(a=make_fit(0.6), b=make_fit(0.7, seed=1), c=make_fit(0.5, seed=2)) | {"d": None}

    found = planner.to_continue(courses, 2, 10.0)

    assert [row["run"] for row in found["rows"]] == ["b", "a", "c"]
    assert [row["keep"] for row in found["rows"]] == [True, True, False]
    assert found["rows"][0]["until"] == pytest.approx(13.0)
    assert found["rows"][0]["value"] == pytest.approx(float(courses["b"].at(np.array([13.0]))[0][0]))
    assert "5.00 of the 10.0 device-hours" in found["rule"]
    assert found["excluded"] == [{"run": "d", "reason": "no forecast yet"}]


def test_keeping_all_is_no_choice(good):
    found = planner.to_continue(good.courses, 1, 10.0)

    assert found["sentence"] == "All of them can go on: there is nothing to choose."


def test_gains_are_those_of_the_forecasts_the_greatest_first():
    courses = courses_of(done=make_fit(0.6, to=30.0), young=make_fit(0.6, to=3.0, seed=1)) | {"none": None}

    rows = planner.gains(courses, 4.0)

    assert [row["run"] for row in rows] == ["young", "done"]
    here, there = (tuple(column[0] for column in courses["young"].at(np.array([at]))) for at in (3.0, 7.0))
    assert (rows[0]["gain"], rows[0]["lo"], rows[0]["hi"]) == pytest.approx([end - here[0] for end in there])


def test_a_run_whose_forecast_ends_before_has_no_gain():
    courses = courses_of(young=make_fit(0.6, to=3.0))

    assert planner.gains(courses, 1000.0) == []


def test_nothing_to_plan_with_is_nothing_said():
    assert planner.at_budget([], 1.0) == ([], [])
    assert planner.budget_chart([], 1.0)["series"] == []
    assert "whose forecast goes so far" in planner.gain_sentence([], {}, 1.0)
    assert planner.to_continue({}, 1, 1.0)["sentence"] == "No run has a forecast to judge yet."
