"""How long clients gather: by how many runs report, within bounds, counted seldom."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone

from tests.launching import tracked_run
from webapp.record.runs import selectors
from webapp.record.runs.models import Run, State


@pytest.mark.parametrize(
    ("runs", "rate", "seconds"),
    [(0, 50, 0.2), (1, 50, 0.2), (10, 50, 0.2), (100, 50, 2), (1000, 50, 20), (10**6, 50, 30)],
)
def test_all_runs_together_keep_to_the_rate(runs, rate, seconds):
    assert selectors.gather_seconds(runs, rate) == pytest.approx(seconds)


@pytest.fixture
def make_runs(project, user):
    def make(count, state=State.RUNNING, age=timedelta(0)):
        for i in range(count):
            run = tracked_run(user=user, project=project, name=f"{state} {i}")
            Run.objects.filter(pk=run.pk).update(state=state, heartbeat_at=timezone.now() - age)

    return make


def test_runs_count_that_run_and_have_spoken_lately(make_runs):
    make_runs(3)
    make_runs(2, age=timedelta(minutes=10))
    make_runs(2, state=State.SUCCEEDED)

    assert selectors.count_reporting_runs() == 3


def test_a_process_counts_once_in_some_seconds(make_runs, django_assert_num_queries):
    make_runs(3)

    with django_assert_num_queries(1):
        assert [selectors.reporting_runs() for _ in range(5)] == [3] * 5


def test_few_runs_are_asked_for_nothing_and_many_are_spread(settings):
    cache.set("runs-that-report", 5)
    assert {selectors.asked_of_a_client() for _ in range(5)} == {0.2}

    cache.set("runs-that-report", 1000)
    settings.BATCHES_PER_SECOND = 100.0
    asked = [selectors.asked_of_a_client() for _ in range(200)]
    assert 8 <= min(asked) < 9.5 < 10.5 < max(asked) <= 12


def test_nobody_is_asked_for_longer_than_the_most(settings):
    cache.set("runs-that-report", 10**6)

    assert max(selectors.asked_of_a_client() for _ in range(50)) == selectors.MOST_SECONDS
