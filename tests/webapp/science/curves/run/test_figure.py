"""The run page's payload: the same numbers as `scaling`, and no ceiling without its interval."""

import json

import numpy as np
import pytest
from django.utils import timezone

import scaling
from webapp.record.runs.models import Point, State
from webapp.science.curves.fitting import Question
from webapp.science.curves.run.figure import run_figure


def test_the_fit_is_the_one_of_scaling_on_the_stored_points(make_run):
    run = make_run()
    points = Point.objects.filter(series__run=run, device_hours__gt=0).order_by("device_hours")
    start = Point.objects.get(series__run=run, device_hours=0).value
    expected = scaling.fit(
        np.array([p.device_hours for p in points]), np.array([p.value for p in points]), r0_observed=(start,)
    )

    figure = run_figure(run)

    assert figure["fit"]["params"] == expected.params
    assert tuple(figure["fit"]["intervals"]["A"]) == tuple(expected.interval("A"))
    assert figure["fit"]["digest"] == expected.digest


def test_the_payload_is_json_without_nan(make_run):
    json.dumps(run_figure(make_run()), allow_nan=False)
    json.dumps(run_figure(make_run(to=0.4)), allow_nan=False)
    json.dumps(run_figure(make_run(n=2)), allow_nan=False)


def test_points_after_the_cutoff_are_apart_and_scored(make_run):
    run = make_run()

    figure = run_figure(run, Question(cutoff=3.0))

    roles = np.array(figure["points"]["role"])
    x = np.array(figure["points"]["x"])
    assert set(roles[x <= 3.0]) == {"fitted"}
    assert set(roles[x > 3.0]) == {"after"}
    assert figure["after"]["n"] == int((x > 3.0).sum())
    assert abs(figure["after"]["mean_error"]) < 0.03
    assert figure["fit"]["solid"]["x"][-1] == pytest.approx(x[x <= 3.0].max())


def test_a_constant_curve_has_neither_fit_nor_forecast_and_the_page_says_why(make_run):
    run = make_run(n=12)
    Point.objects.filter(series__run=run).update(value=0.4)

    figure = run_figure(run)

    assert figure["fit"]["solid"] is None and figure["forecast"]["drawn"] is None
    assert figure["forecast"]["ceiling"]["text"] == "–"
    assert "every reward is the same" in figure["fit_sentence"].lower()


def test_a_curve_that_falls_has_no_forecast_and_the_page_says_why(make_run):
    run = make_run(n=30)
    points = list(Point.objects.filter(series__run=run, device_hours__gt=0))
    for point, value in zip(points, [point.value for point in points][::-1], strict=True):
        point.value = value
    Point.objects.bulk_update(points, ["value"])

    figure = run_figure(run)

    assert figure["forecast"]["drawn"] is None and figure["forecast"]["multiples"] == []
    assert figure["forecast"]["ceiling"]["text"] == "–"
    assert figure["forecast"]["sentence"].startswith("No forecast: the pass rate falls")
    assert "No advice: the pass rate falls" in figure["verdict"]
    assert figure["hindsight"]["sentence"].startswith("From 50 % of the compute there was no forecast: ")


def test_an_unknown_tail_says_what_compute_would_settle_it(make_run):
    figure = run_figure(make_run(to=1.2, noise=0.004))

    forecast = figure["forecast"]
    assert forecast["status"] == "not_identified" and forecast["ceiling"]["value"] is None
    assert forecast["ceiling"]["interval_text"].startswith("90 % 0.")
    assert forecast["sentence"].startswith("The tail is not known yet")
    assert forecast["settles_at"] is None or 1.2 < forecast["settles_at"] < 24.0
    assert "would settle it." in forecast["sentence"]


def test_the_forecast_leads_and_stands_beside_the_ceiling_of_eq_1(make_run):
    figure = run_figure(make_run())

    row = {row["times"]: row for row in figure["forecast"]["multiples"]}
    assert figure["ceiling"]["value"] == figure["fit"]["params"]["A"]
    assert (
        figure["forecast"]["ceiling"]["identified"]
        and figure["forecast"]["ceiling"]["value"] != figure["ceiling"]["value"]
    )
    assert [row[times]["compute"] for times in (2, 4, 10)] == pytest.approx([16.0, 32.0, 80.0])
    assert all(row[times]["interval"][0] < row[times]["value"] < row[times]["interval"][1] for times in row)


def test_points_before_the_window_are_excluded(make_run):
    figure = run_figure(make_run(), Question(window_lo=1.0))

    roles = np.array(figure["points"]["role"])
    assert set(roles[np.array(figure["points"]["x"]) < 1.0]) == {"excluded"}


def test_an_unbent_curve_shows_a_bound_and_no_ceiling(make_run):
    figure = run_figure(make_run(to=0.4))

    assert figure["ceiling"]["identified"] is False
    assert figure["ceiling"]["value"] is None
    assert "at least" in figure["ceiling"]["interval_text"]
    row = {row["name"]: row for row in figure["fit"]["rows"]}["A"]
    assert row["value_text"] == "–"
    assert figure["target"]["value_text"] == "–"


def test_few_evaluations_leave_the_ceiling_open(make_run):
    figure = run_figure(make_run(n=7, to=1.0, noise=0.02))

    assert figure["forecast"]["ceiling"]["text"] == "not known yet"
    assert "Not identified: A is at least " in figure["fit_sentence"]


def test_without_points_the_payload_says_why_there_is_no_fit(make_run):
    figure = run_figure(make_run(n=0, start=False))

    assert figure["fit"] is None
    assert figure["fit_sentence"].startswith("No fit yet")
    assert figure["ceiling"]["text"] == "not identified yet"


@pytest.mark.parametrize("x", ["device_hours", "flops", "tokens", "step"])
def test_every_axis_gives_the_same_ceiling(make_run, x):
    run = make_run()

    figure = run_figure(run, Question(x=x))

    assert figure["x"]["key"] == x
    if x != "step":  # steps are not proportional to compute in this run
        assert figure["ceiling"]["value"] == pytest.approx(run_figure(run)["ceiling"]["value"], abs=1e-4)


def test_hindsight_compares_half_of_the_compute_with_what_came(make_run):
    hindsight = run_figure(make_run(state=State.SUCCEEDED, noise=0.02))["hindsight"]

    assert hindsight["cutoff"] == pytest.approx(4.0)
    assert "From 50 % of the compute: forecast 0.5" in hindsight["sentence"]
    assert 0 <= hindsight["inside"] <= hindsight["n"] == 7


def test_the_band_widens_beyond_the_window(make_run):
    band = run_figure(make_run(), Question(cutoff=3.0))["forecast"]["drawn"]["band"]

    width = np.array(band["hi"]) - np.array(band["lo"])
    assert width[-1] > width[len(width) // 2]


def test_superseded_points_are_not_fitted(make_run):
    run = make_run()
    run.attempts.create(number=2, submission_id="a2", resumed_from_step=200, started_at=timezone.now())

    figure = run_figure(run)

    assert max(figure["points"]["step"]) == 200


def test_evaluations_of_unknown_compute_are_counted_where_the_fit_is_told(make_run):
    run = make_run()
    told = run_figure(run)
    newest = Point.objects.order_by("-step").values_list("pk", flat=True)[:2]
    Point.objects.filter(pk__in=list(newest)).update(device_hours=None)
    left = " 2 evaluations without known device-hours are left out."

    figure = run_figure(run)

    assert figure["summary"].endswith(left)
    assert figure["unknown"].startswith("The device-hours of 2 of ")
    assert figure["now"]["sentence"].endswith("band; 2 evaluations since, device-hours not known")
    by_step = run_figure(run, Question(x="step"))
    assert (
        "without known" not in told["summary"] + by_step["summary"]
        and told["unknown"] == by_step["unknown"] == ""
    )


def test_an_evaluation_of_unknown_compute_is_told_though_the_fit_is_the_same(make_run):
    run = make_run()
    run_figure(run)
    newest = Point.objects.order_by("-step").first()
    Point.objects.create(
        series=newest.series, attempt=1, seq=500, step=500, time=newest.time, value=0.5, tokens=9e6
    )

    assert "1 evaluation without known device-hours is left out." in run_figure(run)["summary"]
