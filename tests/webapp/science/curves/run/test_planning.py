"""Compute to a target, stop advice and what more compute adds: words around the numbers of the forecast."""

import numpy as np
import pytest

from webapp.science.curves import answers, words
from webapp.science.curves.answers import Goal
from webapp.science.curves.fitting import Question, curve_of, fit_curve
from webapp.science.curves.record.recalibrating import Widening
from webapp.science.curves.run import forecast
from webapp.science.curves.run.figure import run_figure
from webapp.science.curves.run.forecast import MORE, forecast_of_run, plan_answers, stop_advice
from webapp.science.curves.words import AXES

HOURS = AXES["device_hours"]


@pytest.fixture
def asked(make_run):
    """asked(goal, delta, **run): the answers and the forecast of a new run."""

    def ask(goal=answers.DEFAULT_GOAL, delta=0.01, end_x=16.0, **options):
        run = make_run(**options)
        curve = curve_of(run)
        said = plan_answers(run, curve, Question(), end_x, goal, delta)
        return said, forecast_of_run(run, fit_curve(curve, Question()), Question())

    return ask


def at(found, compute):
    return [float(column[0]) for column in found.at(np.array([compute]))]


def test_the_target_is_that_of_the_cell_above_the_chart(make_run):
    run, goal = make_run(), Goal(0.55, "rate")
    said = plan_answers(run, curve_of(run), Question(), 16.0, goal)
    cell = run_figure(run, goal=goal)["target"]

    assert said["reach"] == f"{cell['title']}: {cell['value_text']}; {cell['sentence']}."
    assert said["reach"].startswith("To reach 0.55: ") and "90 % " in said["reach"]


def test_a_target_above_the_ceiling_is_never_reached(asked):
    said, _ = asked(Goal(0.8, "rate"))

    assert said["reach"].startswith("To reach 0.8: never; above the forecast ceiling")


def test_a_tail_that_is_not_known_is_no_reason_to_stop(asked):
    said, found = asked(Goal(0.5, "gain"), to=0.4)

    assert not found.known
    assert "needs a known ceiling" in said["reach"]
    assert said["stop"].startswith("Go on: ") and said["stops"] is False
    assert all(" to " in row["gain_interval"] for row in said["more"])


@pytest.mark.parametrize(("delta", "stops"), [(0.05, True), (0.0001, False)])
def test_stopping_is_advised_where_less_is_left_up_to_the_upper_end(asked, delta, stops):
    said, found = asked(delta=delta)
    here = at(found, found.seen)[0]
    lo, hi = (max(0.0, end - here) for end in found.interval)

    assert said["stops"] is stops is (found.interval[1] - here < delta)
    assert words.rate(found.ceiling - here, (lo, hi)) in said["stop"]
    assert words.between((lo, hi), 0.9) in said["stop"]
    assert ("with a probability of 95 %" in said["stop"]) is stops


def test_the_advice_of_a_policy_is_the_same_sentence(make_run):
    run = make_run()
    curve = curve_of(run)

    assert (
        stop_advice(run, curve, Question(), 0.05)
        == plan_answers(run, curve, Question(), 16.0, delta=0.05)["stop"]
    )
    assert stop_advice(run, curve, Question(), 0.0001) == ""


def test_what_the_record_widens_is_no_longer_a_reason_to_stop(make_run, monkeypatch):
    run = make_run()
    curve = curve_of(run)
    assert stop_advice(run, curve, Question(), 0.05)

    record = type("Wide", (), {"widening": lambda *_: Widening(50.0, 20)})()
    monkeypatch.setattr(forecast, "record_of", lambda project: record)

    assert stop_advice(run, curve, Question(), 0.05) == ""


def test_more_compute_has_a_row_for_each_amount_and_the_budget(asked):
    said, found = asked(end_x=20.0)

    assert len(said["more"]) == len(MORE) + 1
    row = next(row for row in said["more"] if row["label"] == "1.5 × so far")
    here = at(found, found.seen)[0]
    value, lo, hi = at(found, 1.5 * found.seen)
    change = lambda rate: words.signed(rate - here, (lo, hi))
    assert row["gain"] == change(value)
    assert row["gain_interval"] == f"{change(lo)} to {change(hi)}"


def test_too_few_evaluations_are_too_early(make_run):
    run = make_run(n=3)

    assert plan_answers(run, curve_of(run), Question(), None)["problem"].startswith("Too early")


@pytest.mark.parametrize(
    ("goal", "title", "value"),
    [
        (Goal(0.55, "rate"), "To reach 0.55", r" h"),
        (Goal(0.9, "rate"), "To reach 0.9", "never"),
        (Goal(0.05, "rate"), "To reach 0.05", "at the start"),
        (Goal(0.5, "gain"), "To reach 0.40", " h"),
    ],
)
def test_the_target_cell_answers_the_goal(make_run, goal, title, value):
    target = run_figure(make_run(), goal=goal)["target"]

    assert target["title"] == title
    assert target["value_text"].endswith(value)


def test_a_rate_needs_no_known_ceiling(make_run):
    target = run_figure(make_run(to=1.0), goal=Goal(0.5, "rate"))["target"]

    assert target["value_text"].endswith(" h")
    assert target["sentence"].startswith("90 % ")


def test_the_sentence_to_paste_has_every_parameter_with_its_interval(make_run):
    figure = run_figure(make_run())

    assert figure["summary"].startswith(
        f"ScaleRL, seed 0: forecast ceiling {figure['forecast']['ceiling']['text']}, 90 % "
    )
    for row in figure["fit"]["rows"][1:3]:
        assert f"{row['value_text']} ({row['interval_text']})" in figure["summary"]
    assert figure["summary"].endswith("device-hours.")


def test_the_sentence_to_paste_never_rounds_a_bound_up(make_run):
    run = make_run(to=0.4)
    fit = fit_curve(curve_of(run), Question())
    summary = run_figure(run)["summary"]

    assert "Eq. 1: A not identified yet: at least " in summary
    assert float(summary.split("at least ")[1].split(" ")[0]) <= fit.at_least()
