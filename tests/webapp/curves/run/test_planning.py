"""Compute to a target, stop advice and what more compute adds: words around the numbers of `scaling.plan`."""

import pytest

from scaling import plan
from webapp.curves import answers, words
from webapp.curves.answers import Goal
from webapp.curves.axes import AXES
from webapp.curves.fitting import Question, curve_of, fit_curve
from webapp.curves.run.figure import run_figure
from webapp.curves.run.planning import MORE, plan_answers

HOURS = AXES["device_hours"]


@pytest.fixture
def asked(make_run):
    """asked(goal, delta, **run): the answers, the fit and the curve of a new run."""

    def ask(goal=answers.DEFAULT_GOAL, delta=0.01, end_x=16.0, **options):
        curve = curve_of(make_run(**options))
        return plan_answers(curve, Question(), HOURS, end_x, goal, delta), fit_curve(curve, Question()), curve

    return ask


def test_the_target_is_that_of_the_plan_with_its_interval(asked):
    said, fit, _ = asked(Goal(0.55, "rate"))
    reach = plan.compute_to(fit, 0.55)

    assert f"reached at {words.amount(reach.compute)} h" in said["reach"]
    assert (
        f"90 % between {words.amount(reach.interval[0])} and {words.amount(reach.interval[1])}"
        in said["reach"]
    )


def test_a_share_of_the_gain_is_a_pass_rate_of_this_fit(asked):
    said, fit, _ = asked(Goal(0.5, "gain"))
    rate = fit.params["R0"] + 0.5 * (fit.params["A"] - fit.params["R0"])

    assert said["reach"].startswith(f"A pass rate of {rate:.3f} (50 % of the gain) was reached at ")


def test_a_target_above_the_ceiling_has_no_compute(asked):
    said, *_ = asked(Goal(0.8, "rate"))

    assert "lies above the ceiling with probability above 0.99" in said["reach"]


def test_what_is_not_identified_is_neither_a_date_nor_a_reason_to_stop(asked):
    said, *_ = asked(Goal(0.5, "rate"), to=0.4)

    assert "the ceiling is not identified, so nobody can say when" in said["reach"]
    assert "cannot be said" in said["stop"]
    assert said["stops"] is False
    assert {row["gain"] for row in said["more"]} == {"–"}
    assert all(" to " in row["gain_interval"] for row in said["more"])


@pytest.mark.parametrize(("delta", "stops"), [(0.05, True), (0.0001, False)])
def test_stopping_is_that_of_the_plan(asked, delta, stops):
    said, fit, curve = asked(delta=delta)
    stop = plan.when_to_stop(fit, float(curve.x[-1]), delta, 0.9)

    assert said["stops"] is stop.stop is stops
    lo, hi = stop.remaining_interval
    assert words.rate(stop.remaining, (lo, hi)) in said["stop"]
    assert words.between((lo, hi), 0.9) in said["stop"]


def test_more_compute_has_a_row_for_each_amount_and_the_budget(asked):
    said, fit, curve = asked(end_x=20.0)
    at = float(curve.x[-1])

    assert len(said["more"]) == len(MORE) + 1
    row = next(row for row in said["more"] if row["label"] == "1.5 × so far")
    value, lo, hi = plan.gain(fit, at, 1.5 * at)
    digits = words.decimals_for(lo, hi)
    assert row["gain"] == words.signed(value, digits)
    assert row["gain_interval"] == f"{words.signed(lo, digits)} to {words.signed(hi, digits)}"


def test_too_few_evaluations_are_too_early(make_run):
    assert plan_answers(curve_of(make_run(n=3)), Question(), HOURS, None)["problem"].startswith("Too early")


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
    target = run_figure(make_run(to=0.4), goal=Goal(0.5, "rate"))["target"]

    assert target["value_text"].endswith(" h")
    assert target["sentence"].startswith("90 % between ")


def test_the_sentence_to_paste_has_every_parameter_with_its_interval(make_run):
    figure = run_figure(make_run())

    assert figure["summary"].startswith(
        f"ScaleRL, seed 0: forecast ceiling {figure['forecast']['ceiling']['text']}, 90 % between "
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
