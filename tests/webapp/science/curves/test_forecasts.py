"""The forecast that is stored beside a fit."""

from unittest import mock

import numpy as np
import pytest
from django.db.models import F

import scaling
from scaling import course
from webapp.record.runs.models import Point
from webapp.science.curves import fitting, services
from webapp.science.curves.fitting import read
from webapp.science.curves.models import Fit
from webapp.science.curves.stored_fits import store_fits


def fitted(run):
    return services.refit(run.pk).fit


def test_it_is_what_the_same_points_say(make_run):
    run = make_run(a=0.6, n=30)

    fit = fitted(run)

    found = read(fit.forecast)
    points = Point.objects.filter(series__run=run, device_hours__gt=0).order_by("device_hours")
    x, y = (np.array(column) for column in zip(*points.values_list("device_hours", "value"), strict=True))
    said = scaling.extrapolate(x, y, [16.0, 80.0])
    value, lo, hi = found.at(np.array([16.0, 80.0]))
    assert (found.status, found.level, found.seen) == ("ok", 0.9, pytest.approx(8.0))
    assert found.ceiling == pytest.approx(said.ceiling)
    assert found.interval == pytest.approx(said.ceiling_interval)
    assert value == pytest.approx(said.value, abs=2e-3)
    assert lo == pytest.approx(said.lo, abs=2e-3)
    assert hi == pytest.approx(said.hi, abs=2e-3)


def test_it_goes_by_tokens_where_hours_were_not_worth_the_same(make_run):
    run = make_run(a=0.6, n=30)
    slow = Point.objects.filter(series__run=run, device_hours__lt=1.0)
    lost = float(slow.order_by("-device_hours").values_list("device_hours", flat=True)[0])
    slow.update(device_hours=2.0 * F("device_hours"))
    Point.objects.filter(series__run=run, tokens__gt=1e6 * lost).update(device_hours=F("device_hours") + lost)

    found = read(fitted(run).forecast)

    curve = fitting.curve_of(run)
    assert curve.work is not None and fitting.curve_of(run, "tokens").work is None
    said = scaling.extrapolate(curve.work, curve.y, 2.0 * curve.work[-1:])
    assert found.value_at(2.0 * found.seen) == pytest.approx(
        [said.value[0], said.lo[0], said.hi[0]], abs=2e-3
    )


def test_fits_that_are_stored_together_say_what_a_refit_says(make_run):
    run = make_run(a=0.6, n=30)
    Point.objects.filter(series__run=run, device_hours__lt=1.0).update(device_hours=0.5 * F("device_hours"))
    assert list(store_fits([run.pk])) == [1]
    together = read(Fit.objects.filter(run=run).latest("id").forecast)
    Fit.objects.filter(run=run).delete()

    alone = read(fitted(run).forecast)

    assert together.value == pytest.approx(alone.value) and together.hi == pytest.approx(alone.hi)
    assert together.seen == alone.seen


def test_without_the_tokens_of_one_evaluation_it_goes_by_hours(make_run):
    run = make_run(a=0.6, n=30)
    Point.objects.filter(series__run=run, step=100).update(tokens=None)

    assert fitting.curve_of(run).work is None and fitted(run).forecast["status"] == "ok"


def test_the_multiples_of_the_compute_seen_are_what_it_says_there(make_run):
    found = read(fitted(make_run(a=0.6, n=30)).forecast)
    at = np.array([16.0, 32.0, 80.0])

    times, compute, *columns = zip(*found.multiples(), strict=True)

    assert times == (2, 4, 10) and compute == pytest.approx(at)
    assert np.array(columns) == pytest.approx(np.stack(found.at(at)))


def test_outside_of_what_is_kept_nothing_is_said(make_run):
    found = read(fitted(make_run(n=30)).forecast)

    value, lo, hi = found.at(np.array([0.001, 1.0, 1000.0]))

    assert np.isnan(value).tolist() == np.isnan(lo).tolist() == np.isnan(hi).tolist() == [True, False, True]


def test_a_curve_that_falls_says_why_and_no_number(make_run):
    run = make_run(a=0.6, n=30)
    points = list(Point.objects.filter(series__run=run, device_hours__gt=0))
    for point, value in zip(points, [point.value for point in points][::-1], strict=True):
        point.value = value
    Point.objects.bulk_update(points, ["value"])

    stored = fitted(run).forecast

    names = ("ceiling", "interval", "compute", "value", "lo", "hi")
    assert stored["status"] == "failed" and "falls" in stored["message"]
    assert [stored[name] for name in names] == [None] * len(names)
    assert np.isnan(read(stored).at(np.array([1.0]))).all()


def test_a_constant_curve_has_neither_and_it_is_said_why(make_run):
    run = make_run(n=30)
    Point.objects.filter(series__run=run).update(value=0.4)

    fit = fitted(run)

    assert fit.status == "failed" and fit.params is None
    assert fit.forecast["status"] == "failed" and fit.forecast["ceiling"] is None
    assert "have the pass rate 0.4" in fit.forecast["message"]


def test_a_fit_stored_without_one_gets_it_by_the_next_refit(make_run):
    run = make_run(n=30)
    fit = fitted(run)
    Fit.objects.update(forecast=None)

    again = services.refit(run.pk)

    assert not again.created and again.fit.pk == fit.pk
    assert Fit.objects.get().forecast == fit.forecast


def test_a_refit_of_the_same_points_works_nothing_out(make_run):
    run = make_run(n=30)
    fitted(run)

    with mock.patch.object(course, "extrapolate", side_effect=AssertionError):
        assert not services.refit(run.pk).created


def test_a_forecast_that_crashes_does_not_keep_the_fit_from_being_stored(make_run, caplog):
    run = make_run(n=31)

    with mock.patch.object(course, "extrapolate", side_effect=RuntimeError("no")):
        fit = fitted(run)

    assert fit.status == "ok" and fit.forecast is None
    assert "crashed" in caplog.text and read(fit.forecast) is None


def test_widened_by_a_factor_the_value_stays_and_the_ends_ahead_move(make_run):
    found = read(fitted(make_run(n=30)).forecast)

    wide = found.widened(1.5)

    known, ahead = found.compute <= found.seen, found.compute >= 1.25 * found.seen
    below, above = found.value - found.lo, found.hi - found.value
    assert (wide.ceiling, wide.widening) == (found.ceiling, 1.5)
    assert wide.value is found.value
    assert (wide.value - wide.lo)[known] == pytest.approx(below[known])
    assert (wide.hi - wide.value)[ahead] == pytest.approx(np.minimum(1.5 * above, 1 - found.value)[ahead])
    lowest = np.minimum(found.lo, found.reached)
    assert wide.lo[ahead] == pytest.approx(np.maximum(found.value - 1.5 * below, lowest)[ahead])
    below_ceiling = 1.5 * (found.ceiling - found.interval[0])
    assert wide.interval[0] == pytest.approx(
        max(found.ceiling - below_ceiling, min(found.reached, found.interval[0]))
    )
    assert found.widened(1.0) is found


def test_no_lower_end_sinks_below_what_is_reached(make_run):
    found = read(fitted(make_run(n=30)).forecast)

    wide = found.widened(500.0)

    now, ahead = found.reached, found.compute > found.seen
    assert found.value_at(found.seen)[1] == now
    assert wide.interval == (pytest.approx(min(now, found.interval[0])), 1.0)
    assert wide.lo[ahead].min() >= min(now, found.lo[ahead].min())
    assert wide.hi[found.compute > 1.25 * found.seen].min() == 1.0


def test_whether_the_ceiling_is_known_is_decided_by_the_widened_interval(make_run):
    found = read(fitted(make_run(n=30)).forecast)
    hi = found.interval[1]

    wide = found.widened(0.12 / (hi - found.ceiling))

    assert found.known and not wide.known
    assert (wide.status, wide.ceiling) == ("not_identified", found.ceiling)
    assert wide.message.startswith("the tail is not known yet: the ceiling may lie between 0.")
