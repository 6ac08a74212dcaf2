"""Stored fits that a process remembers: always of the newest row, and read once."""

from webapp.record.runs.models import Point
from webapp.science.curves import estimates, services
from webapp.science.curves.models import Fit


def add_point(run, hours, rate):
    last = Point.objects.filter(series__run=run).latest("seq")
    last.pk, last.seq, last.step = None, last.seq + 1, last.step + 10
    last.device_hours, last.value = hours, rate
    last.save(force_insert=True)


def without_arrays(fit):
    return (fit.status, fit.params, fit.intervals, fit.window, fit.n, fit.quantile, fit.outlook.c90)


def test_a_run_that_was_fitted_anew_is_read_anew(make_run):
    run = make_run()
    services.refit(run.pk)
    before = estimates.latest([run.pk])[run.pk]

    add_point(run, 9.0, 0.6)
    services.refit(run.pk)
    after = estimates.latest([run.pk])[run.pk]

    assert (before.fit.n + 1, before.fit.window[1]) == (after.fit.n, 8.0)
    stored = Fit.objects.filter(run=run).latest("pk")
    assert after.pk == stored.pk
    assert without_arrays(after.fit) == without_arrays(estimates.of_stored(stored))
    assert (after.fit.outlook.lo == estimates.of_stored(stored).outlook.lo).all()


def test_what_is_known_is_not_read_again(make_run, django_assert_num_queries):
    runs = [make_run(seed=seed).pk for seed in range(3)]
    for run_id in runs[:2]:
        services.refit(run_id)

    with django_assert_num_queries(2):
        first = estimates.latest(runs)
    with django_assert_num_queries(1):
        assert estimates.latest(runs) == first
    assert set(first) == set(runs[:2])


def test_halfway_is_the_newest_that_had_seen_no_more(make_run):
    run = make_run()
    services.refit(run.pk)
    early = Fit.objects.get(run=run)
    add_point(run, 20.0, 0.6)
    services.refit(run.pk)

    assert estimates.halfway({run.pk: 10.0})[run.pk].pk == early.pk
    assert estimates.halfway({run.pk: 20.0})[run.pk].pk > early.pk
    assert estimates.halfway({run.pk: 7.9}) == {}
    assert estimates.halfway({}) == {}
