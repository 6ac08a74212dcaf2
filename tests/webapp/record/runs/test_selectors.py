"""Reading runs and series: superseded points, stable samples, one query for many runs."""

import pytest

from tests.launching import tracked_run
from webapp.base.errors import NotFound
from webapp.record.runs import ingest, lifecycle, selectors
from webapp.record.runs.models import Attempt
from webapp.record.runs.points import effective_points


@pytest.fixture
def report(make_record):
    """report(run, [0.1, 0.2], attempt=2, first=10): pass rates of consecutive steps."""

    def send(run, values, *, attempt=1, first=0, metric="eval/pass_rate"):
        records = [make_record(first + i, {metric: v}, attempt=attempt, seq=i) for i, v in enumerate(values)]
        ingest.store_records(run, records)

    return send


def steps(points):
    return [(p.attempt, p.step) for p in points]


def test_points_past_the_resumed_checkpoint_are_superseded(tracked, report):
    report(tracked, [0.1] * 6)
    lifecycle.report_started(tracked, attempt=2, resumed_from_step=3)
    report(tracked, [0.2] * 2, attempt=2, first=4)

    expected = [(1, 0), (1, 1), (1, 2), (1, 3), (2, 4), (2, 5)]
    assert steps(effective_points(tracked)) == expected


def test_a_later_resume_supersedes_the_attempts_before_it(tracked, report):
    report(tracked, [0.1] * 6)
    lifecycle.report_started(tracked, attempt=2, resumed_from_step=4)
    report(tracked, [0.2] * 2, attempt=2, first=5)
    lifecycle.report_started(tracked, attempt=3, resumed_from_step=2)
    report(tracked, [0.3], attempt=3, first=3)

    assert steps(effective_points(tracked)) == [(1, 0), (1, 1), (1, 2), (3, 3)]


def test_an_attempt_that_began_anew_supersedes_all_before_it(tracked, report):
    report(tracked, [0.1] * 3)
    lifecycle.report_started(tracked, attempt=2, resumed_from_step=None)
    report(tracked, [0.2], attempt=2)

    assert steps(effective_points(tracked)) == [(2, 0)]


def test_an_attempt_that_has_not_started_supersedes_nothing(tracked, report):
    report(tracked, [0.1] * 3)
    Attempt.objects.create(run=tracked, number=2, submission_id="later")

    assert len(effective_points(tracked)) == 3


def test_newest_values_in_one_query(tracked, make_record, django_assert_num_queries):
    ingest.store_records(tracked, [make_record(i, {"a": float(i), "b": -float(i)}) for i in range(4)])

    with django_assert_num_queries(1):
        latest = selectors.latest_values(tracked)

    assert {name: (p.value, p.step) for name, p in latest.items()} == {"a": (3.0, 3), "b": (-3.0, 3)}


def test_the_newest_of_many_runs_in_one_query(project, user, report, django_assert_num_queries):
    runs = [tracked_run(user=user, project=project, name=f"r{i}") for i in range(3)]
    report(runs[0], [i / 100 for i in range(100)])
    report(runs[1], [0.5])

    with django_assert_num_queries(1):
        newest = selectors.latest_of_runs([run.pk for run in runs])

    assert {pk: p.value for pk, p in newest.items()} == {runs[0].pk: 0.99, runs[1].pk: 0.5}


def test_reading_a_curve_is_one_query(tracked, report, django_assert_num_queries):
    report(tracked, [0.5] * 30)

    with django_assert_num_queries(1):
        points = effective_points(tracked)

    assert len(points) == 30
    assert (points[3].device_hours, points[3].stderr) == (pytest.approx(0.3), None)


def test_a_run_of_another_project_is_not_found(tracked, db):
    from webapp.identity.accounts.services import create_project

    other = create_project(slug="code", name="Code")

    with pytest.raises(NotFound):
        selectors.run_by_id(other, tracked.pk)
