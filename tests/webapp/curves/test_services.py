"""Stored fits."""

from django.utils import timezone

from webapp.curves import services
from webapp.curves.models import Fit
from webapp.runs.models import Run


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
