"""The slope and the gain view: the same numbers as `scaling`, and nothing drawn without an identified ceiling."""

import json
import math

import numpy as np
import pytest

from scaling.curve import slope_view
from webapp.science.curves.fitting import Question, curve_of, fit_curve
from webapp.science.curves.run.chart_views import VIEWS, gain_at, labels
from webapp.science.curves.run.figure import run_figure
from webapp.science.curves.words import AXES


@pytest.fixture
def fitted(make_run):
    """(run, its curve, its fit)"""
    run = make_run()
    curve = curve_of(run)
    return run, curve, fit_curve(curve, Question())


def test_the_points_of_the_slope_view_are_log_f_of_scaling(fitted):
    run, curve, fit = fitted
    p = fit.params
    _, log_f = slope_view(curve.x, curve.y, r0=p["R0"], a=p["A"], b=p["B"], c_mid=p["C_mid"])
    defined = np.isfinite(log_f)

    view = run_figure(run, view="slope")["view"]

    assert view["points"]["x"] == curve.x[defined].tolist()
    assert view["points"]["y"] == pytest.approx(log_f[defined] / math.log(10))
    assert view["undefined"] == int((~defined).sum())


def test_the_line_of_the_slope_view_has_slope_b_and_its_edges_those_of_the_interval(fitted):
    run, _, fit = fitted

    line = run_figure(run, view="slope")["view"]["line"]

    log_c = np.log10(line["x"])
    assert np.diff(line["y"]) / np.diff(log_c) == pytest.approx(fit.params["B"])
    first, last = np.diff(line["hi"])[0] / np.diff(log_c)[0], np.diff(line["hi"])[-1] / np.diff(log_c)[-1]
    assert (first, last) == pytest.approx(fit.interval("B"))


def test_points_where_f_is_not_defined_are_counted_in_words(fitted):
    run, curve, _ = fitted
    view = run_figure(run, view="slope")["view"]

    assert len(view["points"]["x"]) + view["undefined"] == len(curve.x)
    assert (f"{view['undefined']} evaluation" in view["sentence"]) == (view["undefined"] > 0)
    assert "slope B = " in view["sentence"] and "90 % " in view["sentence"]


def test_the_gain_is_the_derivative_of_the_curve_inside_its_interval(fitted):
    run, _, fit = fitted

    view = run_figure(run, view="gain")["view"]

    for x, y in zip(view["solid"]["x"], view["solid"]["y"], strict=True):
        step = 1e-4 * x
        assert y == pytest.approx(float(fit.predict(x + step) - fit.predict(x - step)) / (2 * step), rel=1e-3)
    shown = [*view["solid"]["y"], *view["dashed"]["y"][1:]]
    band = zip(view["band"]["lo"], shown, view["band"]["hi"], strict=True)
    assert all((lo or 0.0) <= value <= hi for lo, value, hi in band)


def test_the_gain_at_a_compute_is_the_slope_of_the_curve_there_with_its_interval(fitted):
    *_, fit = fitted
    value, lo, hi = gain_at(fit, 2.0)

    assert value == pytest.approx(float(fit.predict(2.001) - fit.predict(1.999)) / 0.002, rel=1e-3)
    assert lo < value < hi
    before, after = 2.0 / math.sqrt(1.01), 2.0 * math.sqrt(1.01)
    assert (lo, hi) == pytest.approx([end / (after - before) for end in fit.change_interval(before, after)])


@pytest.mark.parametrize("view", ["slope", "gain"])
@pytest.mark.parametrize(("options", "said"), [({"to": 0.4}, "do not identify"), ({"n": 2}, "no fit yet")])
def test_without_an_identified_ceiling_the_view_says_why(make_run, view, options, said):
    payload = run_figure(make_run(**options), view=view)["view"]

    assert payload["key"] == view
    assert said in payload["why"]
    assert "points" not in payload and "solid" not in payload


@pytest.mark.parametrize("x", list(AXES))
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_on_every_axis_is_json_without_nan(make_run, x, view):
    json.dumps(run_figure(make_run(noise=0.02), Question(x=x), view=view), allow_nan=False)


def test_a_view_is_named_by_its_axis():
    assert labels(AXES["device_hours"])["gain"] == "Gain per hour"
    assert labels(AXES["step"])["gain"] == "Gain per step"
