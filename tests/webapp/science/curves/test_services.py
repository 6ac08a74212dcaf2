"""Stored fits."""

from django.utils import timezone

from webapp.record.runs.models import Attempt, Point, Run, Series, Summary
from webapp.science.curves import services
from webapp.science.curves.fitting import Question, curve_of
from webapp.science.curves.models import Fit
from webapp.science.curves.selectors import latest_ids
from webapp.science.curves.services import set_aside


def test_refit_stores_a_fit_with_interval_and_digest(make_run):
    run = make_run(a=0.6)

    result = services.refit(run.pk)

    lo, hi = result.fit.intervals["A"]
    assert result.fit.status == "ok"
    assert lo < 0.6 < hi
    assert hi - lo < 0.05
    assert len(result.fit.data_digest) == 64


def test_refit_of_the_same_points_is_the_same_row(make_run):
    run = make_run()
    first = services.refit(run.pk)

    second = services.refit(run.pk)

    assert (first.created, second.created) == (True, False)
    assert second.fit.pk == first.fit.pk
    assert Fit.objects.count() == 1


def test_refit_tells_the_page_once(make_run):
    run = make_run()

    services.refit(run.pk)
    services.refit(run.pk)

    assert Run.objects.get(pk=run.pk).version == run.version + 1


def test_refit_clears_the_wish_it_saw(make_run):
    run = make_run(refit_wanted_at=timezone.now())

    services.refit(run.pk)

    assert Run.objects.get(pk=run.pk).refit_wanted_at is None


def test_too_few_points_store_nothing(make_run):
    run = make_run(n=3)

    result = services.refit(run.pk)

    assert result.fit is None
    assert not Fit.objects.exists()


def test_an_unbent_curve_is_stored_as_not_identified(make_run):
    run = make_run(to=0.4)

    result = services.refit(run.pk)

    assert result.fit.status == "not_identified"
    assert result.fit.intervals["A"][1] is None


def resumed(run, *, number=2, from_step=None):
    """Another attempt has begun."""
    Attempt.objects.create(
        run=run, number=number, submission_id=f"{run.pk}-{number}", started_at=timezone.now(),
        resumed_from_step=from_step,
    )  # fmt: skip


def shown(run):
    """The newest fit, as the leaderboard and as the list of runs have it."""
    return latest_ids([run.pk]).get(run.pk), Summary.objects.get(run=run).fit_status


def test_a_fit_of_points_that_no_longer_count_is_no_newest_fit(make_run):
    run = make_run(a=0.6)
    first = services.refit(run.pk).fit
    assert shown(run) == (first.pk, "ok")

    resumed(run)
    assert services.refit(run.pk).fit is None

    first.refresh_from_db()
    assert first.superseded and shown(run) == (None, "")
    assert Run.objects.get(pk=run.pk).version == run.version + 2


def test_a_resume_brings_back_the_fit_of_the_points_that_are_left(make_run):
    run = make_run(a=0.6, n=30)
    points = list(Point.objects.filter(series__run=run).order_by("seq"))
    later = [point.pk for point in points[-5:]]
    kept = {point.pk: point for point in points[-5:]}
    Point.objects.filter(pk__in=later).delete()
    before = services.refit(run.pk).fit
    Point.objects.bulk_create(kept.values())
    whole = services.refit(run.pk).fit
    assert shown(run)[0] == whole.pk > before.pk

    resumed(run, from_step=points[-6].step)
    assert services.refit(run.pk).fit == before
    assert shown(run)[0] == before.pk and Fit.objects.get(pk=whole.pk).superseded

    Attempt.objects.filter(run=run, number=2).update(started_at=None)  # as if it had never begun
    assert services.refit(run.pk).fit == whole
    assert shown(run)[0] == whole.pk and not Fit.objects.get(pk=whole.pk).superseded


def test_fits_of_before_a_new_beginning_are_set_aside_with_the_first_new_fit(make_run):
    """No refit happened between: the server was away."""
    run = make_run(a=0.6)
    old = services.refit(run.pk).fit
    series = Series.objects.get(run=run, metric="eval/pass_rate")
    again = list(Point.objects.filter(series=series).order_by("seq"))[:12]
    resumed(run)
    for point in again:
        point.pk, point.attempt = None, 2
    Point.objects.bulk_create(again)

    new = services.refit(run.pk).fit
    assert new.pk > old.pk and Fit.objects.get(pk=old.pk).superseded and not new.superseded


def test_where_points_arrive_meanwhile_nothing_is_set_aside(make_run):
    run = make_run(a=0.6)
    fit = services.refit(run.pk).fit
    old = curve_of(run)
    shorter = old.only(old.x < old.x[-1])

    assert not set_aside(run, shorter, Question(), None)
    assert not Fit.objects.get(pk=fit.pk).superseded
