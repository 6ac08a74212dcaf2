"""The summary that the list reads: kept by ingest, put right by a refit, and the same when made anew."""

import random

import pytest
from django.core.management import call_command

from tests.launching import tracked_run
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.ingest import thinned
from webapp.record.runs.models import Run, Summary
from webapp.science.curves.models import Fit
from webapp.science.curves.services import rebuild, rebuild_all, refit

RATE = "eval/pass_rate"


@pytest.fixture
def report(make_record):
    """report(run, [0.1, 0.2], attempt=1, first=0): pass rates of consecutive steps, one batch."""

    def send(run, rates, *, attempt=1, first=0):
        metrics = [{RATE: rate, f"{RATE}_stderr": 0.01, "train/reward": 1.0} for rate in rates]
        records = [make_record(first + i, m, attempt=attempt, seq=first + i) for i, m in enumerate(metrics)]
        ingest.store_records(run, records)

    return send


def summary(run):
    return Summary.objects.get(run=run)


def values(run):
    return {name: value for name, value in vars(summary(run)).items() if name != "_state"}


def test_records_bring_it_up_to_date(tracked, report, make_record):
    report(tracked, [0.1, 0.2])
    ingest.store_records(tracked, [make_record(2, {"train/reward": 1.0})])

    found = summary(tracked)
    assert (found.pass_rate, found.pass_rate_stderr, found.spark) == (0.2, 0.01, [0.1, 0.2])
    assert (found.used_hours, found.used_seq) == (pytest.approx(0.2), 2)
    assert (found.fit_status, found.ceiling) == ("", None)


def test_late_and_repeated_batches_change_nothing(tracked, report):
    report(tracked, [0.3, 0.4], first=5)
    before = values(tracked)

    report(tracked, [0.3, 0.4], first=5)
    report(tracked, [0.1, 0.2], first=0)

    assert values(tracked) == before
    refit(tracked.pk)
    assert summary(tracked).spark == [0.1, 0.2, 0.3, 0.4]


def test_a_value_that_is_not_finite_is_not_the_latest(tracked, report, make_record):
    report(tracked, [0.3])
    ingest.store_records(tracked, [make_record(1, {RATE: None})])

    assert summary(tracked).pass_rate == 0.3


def test_a_refit_stores_the_ceiling_and_a_later_one_replaces_it(tracked, report):
    noise = random.Random(0)
    rates = [0.2 + 0.4 / (1 + (2.0 / (0.1 * i + 1e-9)) ** 2) + noise.gauss(0, 0.003) for i in range(80)]
    report(tracked, rates)
    refit(tracked.pk)

    fit, found = Fit.objects.get(), summary(tracked)
    said = fit.forecast
    assert (found.fit_status, found.level, found.tail) == (said["status"], said["level"], said["ceiling"])
    assert [found.ceiling_lo, found.ceiling_hi] == said["interval"]
    assert found.reached == said["reached"] < found.ceiling_lo
    assert found.ceiling == (said["ceiling"] if said["status"] == "ok" else None)
    assert found.spark == rates[::2] + rates[-1:]


def test_points_of_an_attempt_that_was_taken_back_do_not_count(tracked, report):
    report(tracked, [0.1, 0.2, 0.9])
    lifecycle.report_started(tracked, attempt=2, resumed_from_step=1)
    before = Run.objects.get(pk=tracked.pk).version

    refit(tracked.pk)

    assert (summary(tracked).pass_rate, summary(tracked).spark) == (0.2, [0.1, 0.2])
    assert Run.objects.get(pk=tracked.pk).version > before  # the list hears of it though nothing was fitted


def test_rebuilding_finds_nothing_to_change_and_mends_what_was_lost(tracked, report, user, project):
    report(tracked, [0.1, 0.2, 0.3])
    refit(tracked.pk)
    quiet = tracked_run(user=user, project=project, name="quiet")
    before = values(tracked)
    assert rebuild([tracked.pk]) == 0

    Summary.objects.all().delete()
    call_command("rebuild_summaries")

    assert values(tracked) == before
    assert summary(quiet).used_hours is None
    assert sum(changed for _, changed in rebuild_all()) == 0


@pytest.mark.parametrize("count", [1, 5])
def test_rebuilding_costs_the_same_for_many_runs(user, project, report, count, django_assert_num_queries):
    runs = [tracked_run(user=user, project=project, name=f"r{i}") for i in range(count)]
    for run in runs:
        report(run, [0.1, 0.2])

    with django_assert_num_queries(4):  # savepoint, lock, rebuild, release
        rebuild(run.pk for run in runs)


def test_thinning_keeps_the_last():
    assert thinned([]) == []
    assert thinned([1.0, 2.0], 40) == [1.0, 2.0]
    assert thinned(list(range(100)), 10) == [*range(0, 100, 10), 99]
