"""Evaluations that fall out, and a fit that crashes."""

import logging

import numpy as np
import pytest

import scaling
from webapp.record.runs.models import Point
from webapp.science.curves import fitting
from webapp.science.curves.fitting import CRASHED, Question, curve_of, fitted_points
from webapp.science.curves.run.figure import run_figure


@pytest.fixture
def crashed(make_run):
    """A run whose 20th evaluation after the start came out at 0.02."""
    run = make_run()
    point = Point.objects.filter(series__run=run).order_by("seq")[20]
    point.value = 0.02
    point.save()
    return run


def test_an_evaluation_far_from_every_curve_is_named_and_a_fit_without_it_is_offered(crashed):
    figure = run_figure(crashed)
    robust = run_figure(crashed, Question(robust=True))

    assert figure["left_out"]["robust"] is False
    assert "0.020 at " in figure["left_out"]["sentence"]
    assert (
        f"A {robust['ceiling']['text']}, {robust['ceiling']['interval_text']}"
        in figure["left_out"]["sentence"]
    )
    assert "outlier" not in figure["points"]["role"]


def test_a_robust_fit_is_that_of_scaling_and_marks_what_it_left_out(crashed):
    curve = curve_of(crashed)
    expected = scaling.fit(curve.x, curve.y, r0_observed=list(curve.start), robust=True)

    figure = run_figure(crashed, Question(robust=True))

    assert figure["fit"]["params"] == expected.params
    assert tuple(figure["fit"]["left_out"]) == expected.left_out
    out = [
        x
        for x, role in zip(figure["points"]["x"], figure["points"]["role"], strict=True)
        if role == "outlier"
    ]
    assert tuple(out) == expected.left_out
    assert figure["left_out"]["sentence"].startswith("Left out as crashed: 0.020 at ")
    assert "1 outlier left out" in figure["summary"]
    assert fitted_points(curve, Question(robust=True)).sum() == expected.n


def test_an_ordinary_curve_offers_nothing(make_run):
    run = make_run(noise=0.01)

    assert run_figure(run)["left_out"] is None
    assert run_figure(run, Question(robust=True))["left_out"]["n"] == 0


def test_a_fit_that_crashes_is_said_and_logged_and_the_points_stay(make_run, monkeypatch, caplog):
    run = make_run()

    def crash(*args, **options):
        raise RuntimeError("boom")

    fitting._cached_fit.cache_clear()
    monkeypatch.setattr(scaling, "fit", crash)
    with caplog.at_level(logging.ERROR):
        figure = run_figure(run)

    assert figure["fit"] is None
    assert figure["fit_sentence"] == CRASHED
    assert len(figure["points"]["x"]) == 40
    assert "boom" in caplog.text


def test_a_fit_that_crashes_when_it_is_asked_is_no_different(make_run, monkeypatch, caplog):
    run = make_run(seed=7)

    def crash(*args, **options):
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(scaling.Fit, "interval", crash)
    with caplog.at_level(logging.ERROR):
        figure = run_figure(run)

    assert (figure["fit"], figure["fit_sentence"]) == (None, CRASHED)
    assert figure["ceiling"]["identified"] is False
    assert "singular" in caplog.text
