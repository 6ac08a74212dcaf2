"""Forms, windows and forecast history: tables with the numbers of `scaling`."""

import json

import numpy as np
import pytest

import scaling
from scaling import forecast, forms, window
from webapp.record.runs.models import Point
from webapp.science.curves import fitting, words
from webapp.science.curves.fitting import Question, curve_of
from webapp.science.curves.models import Fit
from webapp.science.curves.run.analyses import (
    forms_payload,
    hindsight_rows,
    history_payload,
    sensible_windows,
    whole_fits,
    window_payload,
)
from webapp.science.curves.services import refit
from webapp.science.curves.words import AXES

HOURS = AXES["device_hours"]


@pytest.fixture
def curve(make_run):
    return curve_of(make_run())


def test_forms_stand_side_by_side_with_the_numbers_of_scaling(curve):
    question = Question(cutoff=4.0)
    inside = curve.x <= 4.0
    x, y, start = curve.x[inside], curve.y[inside], list(curve.start)
    choice = forms.choose(x, y, r0_observed=start)

    payload = forms_payload(curve, question, HOURS, 16.0)

    assert [row["form"] for row in payload["rows"]] == list(scaling.FORMS)
    for row in payload["rows"]:
        fit = scaling.fit(x, y, form=row["form"], r0_observed=start)
        assert row["r2"] == f"{fit.r2:.4f}"
        assert row["sse"] == f"{fit.sse:.4f}"
        assert row["held_out"] == [f"{one.rmse:.4f}" for one in choice.row(row["form"]).held_out]
        assert row["after"] == f"{forecast.score(fit, curve.x[~inside], curve.y[~inside]).rmse:.4f}"
    assert payload["sentence"].startswith("The sigmoid forecasts later evaluations best: errors sigmoid ")
    json.dumps(payload["chart"], allow_nan=False)


def test_the_lines_of_the_forms_are_their_fits(curve):
    chart = forms_payload(curve, Question(), HOURS, 16.0)["chart"]

    for line in chart["lines"]:
        fit = scaling.fit(curve.x, curve.y, form=line["form"], r0_observed=list(curve.start))
        assert line["solid"]["y"] == pytest.approx(fit.predict(line["solid"]["x"]).tolist())
        assert line["dashed"]["x"][-1] == pytest.approx(16.0)


def test_a_crashed_evaluation_is_left_out_of_all_forms(make_run):
    run = make_run()
    Point.objects.filter(series__run=run, seq=30).update(value=0.01)
    curve = curve_of(run)

    plain, robust = (
        forms_payload(curve, Question(robust=each), HOURS, None)["rows"] for each in (False, True)
    )

    assert all(float(b["sse"]) < 0.2 * float(a["sse"]) for a, b in zip(plain, robust, strict=True))


def test_windows_are_those_of_the_sensitivity_table_the_shown_one_first(curve):
    question = Question(window_lo=0.3, cutoff=5.0)

    payload = window_payload(curve, question, HOURS)

    windows = [(row["lo"], row["cutoff"]) for row in payload["rows"]]
    found = window.sensitivity(curve.x, curve.y, windows, r0_observed=list(curve.start))
    assert windows[0] == (0.3, 5.0) and payload["rows"][0]["shown"]
    assert (None, None) in windows
    assert [row["n"] for row in payload["rows"]] == [row.n for row in found.rows]
    assert [row["ceiling"]["value"] for row in payload["rows"]] == [row.a for row in found.rows]
    assert found.verdict[1:] in payload["verdict"]
    assert payload["proposal"]["lo"] == window.propose(curve.x, curve.y).lo


def test_no_two_windows_hold_the_same_points(curve):
    windows = sensible_windows(curve, Question(), None, HOURS)

    held = [curve.inside(Question(cutoff=hi, window_lo=lo)).tobytes() for lo, hi in windows]
    assert len(set(held)) == len(held) > 4
    assert windows[(None, None)] == "shown above, every evaluation"
    assert not any("GPU-hours" in label for label in windows.values())


def test_a_start_that_does_not_belong_is_proposed(make_run):
    curve = curve_of(make_run(noise=0.002, n=60))
    curve.y[:6] += 0.15

    payload = window_payload(curve, Question(), HOURS)

    assert payload["proposal"]["lo"] == curve.x[6]
    assert "proposed start" in {row["label"] for row in payload["rows"]}


@pytest.mark.parametrize("n", [0, 1, 4])
def test_too_few_points_are_a_reason_and_no_rows(make_run, n):
    curve = curve_of(make_run(n=n, start=n > 0))

    for payload in (forms_payload(curve, Question(), HOURS, None), window_payload(curve, Question(), HOURS)):
        assert "at least 5 are needed" in payload["problem"]
        assert payload["rows"] == []
    assert hindsight_rows(curve, Question(), HOURS) == []


def test_an_analysis_that_crashes_says_so(curve, monkeypatch, caplog):
    def crash(*args, **options):
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(forms, "choose", crash)
    assert forms_payload(curve, Question(cutoff=3.3), HOURS, None)["problem"] == fitting.CRASHED
    assert "boom" in caplog.text


def test_the_history_is_the_stored_fits(make_run):
    run = make_run()
    points = list(Point.objects.filter(series__run=run).order_by("seq"))
    Point.objects.filter(series__run=run, seq__gt=12).delete()
    refit(run.pk)
    for seq in (22, 32, 40):
        Point.objects.bulk_create([p for p in points if p.seq <= seq], ignore_conflicts=True)
        refit(run.pk)
    fits = whole_fits(run, "eval/pass_rate")

    payload = history_payload(fits)

    assert len(fits) == 4
    assert [row["n"] for row in payload["rows"]] == [40, 32, 22, 12]
    stored = [fit.forecast for fit in Fit.objects.filter(run=run).order_by("pk")]
    known, unknown = (
        [one for one in stored if (one["status"] == "ok") is wanted] for wanted in (True, False)
    )
    chart = payload["chart"]
    assert known
    assert chart["known"]["y"] == [one["ceiling"] for one in known]
    assert chart["known"]["lo"] == [one["interval"][0] for one in known]
    assert chart["open"]["hi"] == [one["interval"][1] for one in unknown]
    assert [row["paper"]["value"] for row in payload["rows"]] == [
        fit.params["A"] if fit.status == "ok" else None for fit in fits[::-1]
    ]
    value, earlier = known[-1]["ceiling"], known[:-1]
    held = sum(one["interval"][0] <= value <= one["interval"][1] for one in earlier)
    assert f"{held} hold" in payload["sentence"]


def test_a_run_without_fits_has_a_sentence(make_run):
    assert history_payload([])["sentence"].startswith("No fit is stored yet")
    run = make_run(to=0.4)
    refit(run.pk)
    assert "of none was the ceiling known" in history_payload(whole_fits(run, "eval/pass_rate"))["sentence"]


def test_a_fit_that_was_stored_without_a_forecast_still_has_its_row(make_run):
    run = make_run()
    refit(run.pk)
    Fit.objects.update(forecast=None)

    (row,) = history_payload(whole_fits(run, "eval/pass_rate"))["rows"]

    assert row["ceiling"]["interval_text"] == "no forecast yet" and row["paper"]["identified"]


def test_forecasts_from_earlier_are_those_of_scaling(curve):
    rolled = forecast.rolling(curve.x, curve.y, r0_observed=list(curve.start))

    rows = hindsight_rows(curve, Question(), HOURS)

    assert [row["inside"] for row in rows] == [one.inside for one in rolled]
    last = rolled[-1]
    assert rows[-1]["predicted"] == words.rate(last.predicted, last.interval)
    assert rows[-1]["coverage"] == f"{round(last.coverage * last.n_later)} of {last.n_later}"


def test_analyses_are_made_once_for_the_same_points(curve, monkeypatch):
    hindsight_rows(curve, Question(), HOURS)
    monkeypatch.setattr(forecast, "fit", None)

    assert hindsight_rows(curve, Question(), HOURS)


def test_a_mask_takes_the_same_points_of_every_column(curve):
    half = curve.only(np.arange(len(curve.x)) < 20)

    assert len(half.x) == len(half.y) == len(half.se) == len(half.step) == len(half.hours) == 20
    assert half.start == curve.start
