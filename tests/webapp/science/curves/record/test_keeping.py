"""Every run is forecast as it goes, without anybody asking, and judged when it has ended."""

from datetime import timedelta
from unittest import mock

import numpy as np
import pytest
from django.utils import timezone

import scaling
from webapp.record.runs.models import Attempt, Point, Run, State
from webapp.science.curves import services
from webapp.science.curves.fitting import curve_of
from webapp.science.curves.models import Fit, ForecastOrigin, ForecastOutcome, Recalibration
from webapp.science.curves.record import keeping, recalibrating
from webapp.science.curves.record.keeping import keep_overdue, keep_record, overdue
from webapp.science.curves.record.recalibrating import record_of


@pytest.fixture(autouse=True)
def quick_grid(monkeypatch):
    """The paper's grid takes a second; here it has a few cells."""
    monkeypatch.setattr(recalibrating, "GRID_STEP", 0.2)
    monkeypatch.setattr(recalibrating, "GRID_C_MID", np.array([0.1, 0.3]))


def cuts(run):
    return sorted(ForecastOrigin.objects.filter(run=run).values_list("cut", flat=True))


def end(run, state=State.SUCCEEDED):
    Run.objects.filter(pk=run.pk).update(state=state, ended_at=timezone.now())


def test_while_a_run_goes_on_it_is_forecast_at_shares_of_its_budget(make_run):
    run = make_run(to=7.0)  # of 16 device-hours

    assert keep_record(run.pk)

    assert cuts(run) == [4.0, 6.0]
    assert set(ForecastOrigin.objects.values_list("as_it_went", "said")) == {(True, None)}
    assert not ForecastOutcome.objects.exists()


def test_a_second_time_nothing_is_done(make_run):
    run = make_run(to=7.0)
    keep_record(run.pk)

    with mock.patch.object(recalibrating, "forecast", side_effect=AssertionError):
        assert not keep_record(run.pk)


def test_only_what_was_known_by_then_is_used(make_run):
    run = make_run(to=7.0)
    keep_record(run.pk)
    known = curve_of(run)
    known = known.only(known.x <= 4.0)

    origin = ForecastOrigin.objects.get(run=run, cut=4.0)

    said = scaling.extrapolate(known.x, known.y, [16.0], level=0.8)
    found = recalibrating.at(origin.says, 16.0)
    assert (origin.n, origin.seen) == (len(known.x), pytest.approx(known.x[-1]))
    assert found["value"] == pytest.approx(said.value[0], abs=2e-3)
    assert found["levels"]["0.8"] == pytest.approx([said.lo[0], said.hi[0]], abs=2e-3)


def test_without_a_budget_a_run_is_forecast_whenever_its_compute_has_grown(make_run):
    run = make_run(to=7.0)
    Run.objects.filter(pk=run.pk).update(budget_hours=None)

    keep_record(run.pk)
    Point.objects.filter(series__run=run, device_hours__gt=3.0).delete()
    keep_record(run.pk)

    assert cuts(run) == pytest.approx([2.0**1.5, 2.0**2.5])


def test_an_ended_run_is_judged_by_its_last_eighth(make_run):
    run = make_run(to=16.0, state=State.SUCCEEDED)
    curve = curve_of(run)
    late = curve.x > 14.0

    assert keep_record(run.pk)

    outcome = ForecastOutcome.objects.get(run=run)
    assert (outcome.last, outcome.why) == (pytest.approx(16.0), "")
    assert outcome.target == pytest.approx(curve.x[late].mean())
    assert outcome.came == pytest.approx(curve.y[late].mean())
    assert cuts(run) == pytest.approx([4.0, 6.0, 8.0, 12.0])
    for origin in ForecastOrigin.objects.filter(run=run):
        early = curve.only(curve.x <= origin.cut)
        assert origin.as_it_went is False
        assert origin.said["last"]["value"] == pytest.approx(early.y[-5:].mean())
        expected = scaling.fit(early.x, early.y, r0_observed=list(curve.start)).predict(outcome.target)
        assert origin.said["eq1"]["value"] == pytest.approx(expected)
        assert ("paper" in origin.said) == (origin.cut == pytest.approx(8.0))
        value, (lo, hi) = origin.said["forecast"]["value"], origin.said["forecast"]["levels"]["0.9"]
        inside = lo <= outcome.came <= hi
        assert (origin.ratios["0.9"] <= 1) == inside
        assert lo < value < hi


def test_judged_in_brief_a_run_has_its_ratios_and_still_waits_for_the_other_methods(make_run, project):
    run = make_run(to=16.0, state=State.SUCCEEDED, ended_at=timezone.now())

    assert keep_overdue(60, in_brief_of=project) == 1
    brief = dict(ForecastOrigin.objects.values_list("cut", "ratios"))
    assert all(brief.values()) and all(set(one.said) == {"forecast"} for one in ForecastOrigin.objects.all())
    assert record_of(project).n_runs == 1
    assert list(overdue()) == [run]
    assert keep_overdue(60, in_brief_of=project) == 0

    assert keep_overdue(60) == 1 and not overdue().exists()
    assert dict(ForecastOrigin.objects.values_list("cut", "ratios")) == brief
    assert all({"last", "eq1"} < set(one.said) for one in ForecastOrigin.objects.all())


def test_what_was_forecast_on_the_way_is_scored_as_it_was_stored(make_run):
    run = make_run(to=15.8)
    keep_record(run.pk)
    before = {one.cut: one.says for one in ForecastOrigin.objects.filter(run=run)}
    end(run)

    keep_record(run.pk)

    after = ForecastOrigin.objects.filter(run=run)
    assert {one.cut: one.says for one in after} == before
    assert all(one.as_it_went and one.ratios for one in after)


def test_a_run_that_stopped_early_is_also_forecast_from_shares_of_what_it_had(make_run):
    run = make_run(to=8.2)
    keep_record(run.pk)
    end(run, State.CANCELLED)

    keep_record(run.pk)

    made = ForecastOrigin.objects.filter(run=run).values_list("cut", "as_it_went")
    shares = [(2.05, False), (3.075, False), (4.0, True), (6.0, True), (8.0, True)]
    assert sorted(made) == [pytest.approx(one) for one in shares]
    late = ForecastOrigin.objects.get(run=run, cut=8.0)
    assert late.said is None and late.ratios is None  # within the last eighth


def test_a_resumed_run_is_judged_anew_and_superseded_origins_are_gone(make_run):
    run = make_run(to=16.0, state=State.SUCCEEDED)
    keep_record(run.pk)
    first = ForecastOutcome.objects.get(run=run).came
    Attempt.objects.create(
        run=run, number=2, submission_id=f"{run.pk}-2", started_at=timezone.now(), resumed_from_step=350
    )
    Point.objects.filter(series__run=run, step=360).update(attempt=2, value=0.55, device_hours=15.5)
    Point.objects.filter(series__run=run, step=370).update(attempt=2, value=0.55, device_hours=16.0)
    end(run)

    assert keep_record(run.pk)

    outcome = ForecastOutcome.objects.get(run=run)
    assert outcome.came == pytest.approx(0.55) != first
    assert not ForecastOrigin.objects.filter(run=run, seen__gt=12.0).exists()


def test_too_few_evaluations_are_said_and_not_tried_again(make_run):
    run = make_run(n=5, state=State.FAILED, ended_at=timezone.now())

    keep_record(run.pk)

    outcome = ForecastOutcome.objects.get(run=run)
    assert "5 evaluations, too few" in outcome.why and outcome.came is None
    assert not overdue().exists()


def test_the_sweep_finds_ended_runs_and_those_that_ended_again(make_run):
    run, other = make_run(state=State.SUCCEEDED, ended_at=timezone.now()), make_run(seed=1)

    assert keep_overdue(60.0) == 1
    assert keep_overdue(60.0) == 0
    assert list(ForecastOutcome.objects.values_list("run", flat=True)) == [run.pk]
    end(run)
    assert [one.pk for one in overdue()] == [run.pk]
    assert keep_overdue(60.0) == 1 and not overdue().exists()
    assert not ForecastOutcome.objects.filter(run=other).exists()


def test_a_run_that_crashes_does_not_stop_the_others(make_run, caplog):
    for seed in range(2):
        make_run(seed=seed, state=State.SUCCEEDED, ended_at=timezone.now() - timedelta(hours=seed))

    with mock.patch.object(recalibrating, "last_value", side_effect=[RuntimeError("no"), *[None] * 9]):
        assert keep_overdue(60.0) == 2

    whys = sorted(ForecastOutcome.objects.values_list("why", flat=True))
    assert whys[0] == "" and "crashed" in whys[1] and "not judged" in caplog.text


def test_a_curve_without_a_forecast_is_scored_for_the_others(make_run):
    run = make_run(to=16.0, state=State.SUCCEEDED)
    points = list(Point.objects.filter(series__run=run, device_hours__gt=0))
    for point, value in zip(points, [point.value for point in points][::-1], strict=True):
        point.value = value
    Point.objects.bulk_update(points, ["value"])

    keep_record(run.pk)

    last = ForecastOrigin.objects.filter(run=run).order_by("-cut").first()
    assert (last.status, last.says, last.ratios) == ("failed", None, None)
    assert last.said["forecast"] is None and last.said["last"]["value"] > 0


def test_a_fit_of_a_release_before_gets_its_forecast(make_run):
    run = make_run(to=16.0, state=State.SUCCEEDED)
    services.refit(run.pk)
    Fit.objects.update(forecast=None)

    keep_record(run.pk)

    assert Fit.objects.get().forecast["ceiling"] > 0.5


def test_every_judged_run_changes_the_project_s_record(make_run, project):
    for seed in range(2):
        keep_record(make_run(seed=seed, state=State.SUCCEEDED).pk)

    assert Recalibration.objects.get(project=project).stamp == 2


def test_two_workers_at_once_store_it_once(make_run):
    run = make_run(to=7.0)
    run = Run.objects.get(pk=run.pk)
    curve = curve_of(run)
    with mock.patch.object(
        keeping.ForecastOrigin.objects, "filter", return_value=ForecastOrigin.objects.none()
    ):
        first = keeping._origin(run, curve, 4.0, as_it_went=True)
        second = keeping._origin(run, curve, 4.0, as_it_went=True)

    assert (first, second) == (True, False)
    assert ForecastOrigin.objects.count() == 1
