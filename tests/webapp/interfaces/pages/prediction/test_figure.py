"""The figure of a prediction against numbers that `scaling` gives for the same points."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scaling
from scaling.course import course_of
from tests.webapp.interfaces.pages.addresses import make_prediction
from tests.webapp.interfaces.pages.data import record
from webapp.record.runs import ingest, lifecycle
from webapp.science.curves import words
from webapp.science.curves.ahead import ceiling, for_evaluations
from webapp.science.curves.answers import outcome_of
from webapp.science.curves.fitting import curve_of
from webapp.science.predictions import selectors
from webapp.science.predictions.figure import (
    Frozen,
    after_sentence,
    known_of,
    parameter_rows,
    prediction_figure,
    roles,
)


def figure_of(claim, **more):
    found = selectors.prediction_by_id(claim.project, claim.pk)
    return prediction_figure(found, curve_of(found.run), list(found.outcomes.select_related("run")), **more)


def own_fit(run, cutoff=None, level=0.9):
    """The same fit, made here from the points."""
    curve = curve_of(run)
    inside = curve.x <= (cutoff or np.inf)
    return scaling.fit(curve.x[inside], curve.y[inside], level=level, r0_observed=curve.start)


def own_forecast(run):
    return course_of(own_fit(run))


def test_the_frozen_curve_and_its_band_are_those_of_the_forecast(claim, half_run):
    drawn, said = figure_of(claim)["fit"], own_forecast(half_run)

    x = np.array(drawn["dashed"]["x"])
    assert np.allclose(drawn["dashed"]["y"], said.at(x)[0], atol=1e-6)
    _, lo, hi = said.at(np.array(drawn["band"]["x"]))
    assert np.allclose(drawn["band"]["lo"], lo, atol=1e-6)
    assert np.allclose(drawn["band"]["hi"], hi, atol=1e-6)
    assert drawn["window"] == [pytest.approx(8 / 30), 8.0]
    assert x[-1] >= claim.target


def test_the_mark_is_the_claim_at_its_target(claim, half_run):
    mark = figure_of(claim)["claim"]

    said = for_evaluations(own_forecast(half_run), np.array([16.0]), own_fit(half_run).noise_sd)
    value, lo, hi = (column[0] for column in said)
    assert mark["x"] == 16.0
    assert mark["value"] == pytest.approx(value)
    assert (mark["lo"], mark["hi"]) == (pytest.approx(lo), pytest.approx(hi))


def test_what_came_since_is_told_from_what_was_known(claim, half_run, go_on):
    before = figure_of(claim)
    go_on(half_run)
    after = figure_of(claim)

    assert before["points"]["role"] == ["fitted"] * 30
    assert after["points"]["role"] == ["fitted"] * 30 + ["after"] * 32
    assert after["fit"]["solid"] == before["fit"]["solid"]  # frozen
    assert after["changed"] == ""
    assert [one["good"] for one in after["outcomes"]] == [True]


def test_known_but_not_fitted_is_no_actual(user, half_run):
    """Evaluations between the cutoff and the newest were there to be seen: they check nothing."""
    claim = make_prediction(user, half_run, question={"cutoff": 4.0})

    found = figure_of(claim)

    assert found["points"]["role"] == ["fitted"] * 15 + ["excluded"] * 15
    assert "Nothing has come" in found["after_sentence"]


def test_residuals_are_points_minus_the_frozen_curve_with_the_band_of_one_evaluation(claim, half_run, go_on):
    said, noise_sd = own_forecast(half_run), own_fit(half_run).noise_sd
    go_on(half_run)
    residuals = figure_of(claim)["residuals"]

    curve = curve_of(half_run)
    value, lo, hi = for_evaluations(said, curve.x, noise_sd)
    assert np.allclose(residuals["y"], curve.y - value, atol=1e-6)
    assert np.allclose(residuals["lo"], lo - value, atol=1e-6)
    assert np.allclose(residuals["hi"], hi - value, atol=1e-6)


def test_points_that_were_superseded_since_are_said_and_the_curve_stays(claim, half_run):
    before = figure_of(claim)
    lifecycle.report_finished(half_run, attempt=1, state="failed", message="a node fell over")
    half_run.refresh_from_db()
    from webapp.record.runs.launch import resume_run

    resume_run(half_run, user=claim.author)
    lifecycle.report_started(half_run, attempt=2, resumed_from_step=20, device="cpu")
    later = [record(s, 8 * s / 30, {"eval/pass_rate": 0.5}, attempt=2) for s in range(21, 26)]
    ingest.store_records(half_run, later)

    after = figure_of(claim)

    assert "superseded" in after["changed"]
    assert after["fit"] == before["fit"]
    found = selectors.prediction_by_id(claim.project, claim.pk)
    assert not known_of(found, curve_of(half_run)).intact


def test_a_rival_is_drawn_from_its_own_frozen_curve(user, half_run, make_run):
    rival = make_run(24, a=0.5, seed=3, recipe="tiny-minimax")
    claim = make_prediction(user, half_run, statement="passes", rival=rival)

    found = figure_of(claim)

    x = np.array(found["rival"]["solid"]["x"])
    assert np.allclose(found["rival"]["solid"]["y"], own_forecast(rival).at(x)[0], atol=1e-6)
    assert found["claim"]["value"] is None
    assert found["rival"]["label"] == str(rival.revision)


def test_a_ceiling_that_is_not_identified_is_never_a_number(user, make_run):
    young = make_run(8, to=0.5)
    claim = make_prediction(user, young, target=1.0, value=0.3, lo=0.2, hi=0.4)

    rows = {row["name"]: row for row in parameter_rows(claim)}

    assert claim.frozen["status"] == "not_identified"
    assert rows["A"]["value"] == "–"
    assert "at least" in rows["A"]["interval"] or "not identified" in rows["A"]["interval"]


def test_the_forecast_ceiling_leads_the_parameters(claim, half_run):
    first, *others = parameter_rows(claim)

    said = own_forecast(half_run)
    assert (first["name"], first["value"]) == ("Forecast ceiling", ceiling(said)["text"])
    assert first["interval"] == words.span(said.interval)
    assert [row["name"] for row in others] == ["A", "B", "C", "R"]


def test_parameters_stand_with_their_intervals(claim, half_run):
    fit = own_fit(half_run)
    row = next(row for row in parameter_rows(claim) if row["name"] == "A")

    lo, hi = (float(end) for end in row["interval"].split(" to "))
    assert float(row["value"]) == pytest.approx(fit.params["A"], abs=5e-4)
    assert (lo, hi) == (
        pytest.approx(fit.interval("A")[0], abs=5e-4),
        pytest.approx(fit.interval("A")[1], abs=5e-4),
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.floats(0.01, 100), max_size=10), st.floats(0.01, 50), st.floats(0, 50), st.floats(0, 50))
def test_every_point_has_one_role(x, lo, more, rest):
    cutoff, known_until = lo + more, lo + more + rest
    found = roles(np.array(x), lo, cutoff, known_until)

    for at, role in zip(x, found, strict=True):
        expected = "after" if at > known_until else "fitted" if lo <= at <= cutoff else "excluded"
        assert role == expected


def test_a_frozen_fit_without_a_forecast_draws_nothing():
    assert Frozen({"forecast": None, "fitted_lo": 1.0, "fitted_hi": 2.0}).drawn(4.0)["solid"] is None
    assert Frozen({"params": None, "outlook": None, "fitted_lo": 1.0}).drawn(4.0)["solid"] is None


def test_a_claim_from_before_forecasts_were_frozen_keeps_the_curve_of_its_fit(half_run):
    fit = own_fit(half_run)
    frozen = Frozen(outcome_of(fit) | {"form": fit.form, "level": 0.9})
    del frozen.copied["forecast"]

    drawn = frozen.drawn(16.0)

    x = np.array(drawn["dashed"]["x"])
    assert x[-1] == pytest.approx(16.0)
    assert np.allclose(drawn["dashed"]["y"], fit.predict(x), atol=2e-3)  # drawn between 40 computes
    lo, hi = fit.predict_interval(np.array(drawn["band"]["x"]))
    assert np.allclose(drawn["band"]["lo"], lo, atol=2e-3)
    assert np.allclose(drawn["band"]["hi"], hi, atol=2e-3)


def test_the_sentence_counts_what_lies_inside():
    residuals = {
        "x": [1, 2, 3], "y": [0.0, 0.01, 0.05], "lo": [-0.02] * 3, "hi": [0.02] * 3,
        "role": ["fitted", "after", "after"],
    }  # fmt: skip

    assert after_sentence(residuals, 0.9) == (
        "2 evaluations since it was frozen, 1 inside the 90 % band; mean error +0.030."
    )
