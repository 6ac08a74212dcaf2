"""Batches of records: stored once, whole or not at all, in a constant number of queries."""

import pytest
from django.db import connection

from training.records import Compute
from webapp.base.errors import Conflict, InvalidInput
from webapp.record.runs import ingest
from webapp.record.runs.models import Point, Record, Run, Series, State, Summary
from webapp.record.runs.points import effective_points
from webapp.science.curves import services


def test_a_batch_becomes_records_series_and_points(tracked, make_record):
    result = ingest.store_records(
        tracked, [make_record(i, {"train/reward": i / 10, "train/kl": 0.1}) for i in range(5)]
    )

    assert (result.accepted, result.duplicates) == (5, 0)
    assert Record.objects.filter(run=tracked).count() == 5
    assert set(Series.objects.values_list("metric", flat=True)) == {"train/reward", "train/kl"}
    points = Point.objects.filter(series__metric="train/reward").order_by("seq")
    assert [(p.step, p.value, p.flops) for p in points] == [(i, i / 10, i * 1e12) for i in range(5)]


def test_a_repeated_batch_is_all_duplicates(tracked, make_record):
    batch = [make_record(i, {"train/reward": 0.5}) for i in range(5)]
    ingest.store_records(tracked, batch)
    version = Run.objects.get(pk=tracked.pk).version

    result = ingest.store_records(tracked, [*batch, make_record(5, {"train/reward": 0.6})])
    again = ingest.store_records(tracked, batch)

    assert (result.accepted, result.duplicates) == (1, 5)
    assert (again.accepted, again.duplicates) == (0, 5)
    assert Point.objects.count() == 6
    assert Run.objects.get(pk=tracked.pk).version == version + 1


def test_other_content_under_a_known_key_is_refused_with_the_whole_batch(tracked, make_record):
    ingest.store_records(tracked, [make_record(1, {"train/reward": 0.5})])

    with pytest.raises(Conflict) as caught:
        ingest.store_records(
            tracked, [make_record(2, {"train/reward": 0.1}), make_record(1, {"train/reward": 0.9})]
        )

    assert caught.value.field == "records.1"
    assert Record.objects.count() == Point.objects.count() == 1


def test_two_contents_under_one_key_in_one_batch_are_refused(tracked, make_record):
    with pytest.raises(Conflict, match="records.1: attempt 1, seq 1"):
        ingest.store_records(tracked, [make_record(1, {"a": 0.5}), make_record(1, {"a": 0.6})])

    assert not Record.objects.exists()


def test_a_repetition_inside_a_batch_is_a_duplicate(tracked, make_record):
    result = ingest.store_records(tracked, [make_record(1, {"a": 0.5}), make_record(1, {"a": 0.5})])

    assert (result.accepted, result.duplicates) == (1, 1)


def test_stderr_goes_beside_its_metric(tracked, make_record):
    ingest.store_records(
        tracked, [make_record(1, {"eval/pass_rate": 0.5, "eval/pass_rate_stderr": 0.02, "lone_stderr": 1.0})]
    )

    assert set(Series.objects.values_list("metric", flat=True)) == {"eval/pass_rate", "lone_stderr"}
    assert Point.objects.get(series__metric="eval/pass_rate").stderr == 0.02


def test_an_error_that_once_stood_alone_stays_out_of_its_series_when_its_metric_comes(tracked, make_record):
    ingest.store_records(tracked, [make_record(0, {"a_stderr": 1.0})])

    ingest.store_records(tracked, [make_record(1, {"a": 0.5, "a_stderr": 0.1})])

    assert Point.objects.filter(series__metric="a_stderr").count() == 1


def test_null_values_and_null_errors_leave_no_number(tracked, make_record):
    ingest.store_records(
        tracked, [make_record(1, {"a": None, "b": 1.0, "b_stderr": None}), make_record(2, {})]
    )

    assert [(p.series.metric, p.stderr) for p in Point.objects.select_related("series")] == [("b", None)]
    assert Record.objects.count() == 2


def test_new_evaluations_wish_a_refit_others_do_not(tracked, make_record):
    ingest.store_records(tracked, [make_record(1, {"train/reward": 0.5})])
    without = Run.objects.get(pk=tracked.pk).refit_wanted_at

    ingest.store_records(tracked, [make_record(2, {"eval/pass_rate": 0.5})])

    assert without is None
    assert Run.objects.get(pk=tracked.pk).refit_wanted_at is not None


def test_the_first_record_of_a_starting_run_makes_it_running(launch_one, make_record):
    run = launch_one()

    ingest.store_records(run, [make_record(0, {"eval/pass_rate": 0.1})])

    run.refresh_from_db()
    assert run.state == State.RUNNING
    assert run.heartbeat_at is not None
    assert run.attempts.get().state == State.RUNNING


def test_records_after_the_end_are_kept_and_change_no_state(launch_one, make_record):
    run = launch_one()
    Run.objects.filter(pk=run.pk).update(state=State.FAILED)

    result = ingest.store_records(run, [make_record(0, {"eval/pass_rate": 0.1})])

    run.refresh_from_db()
    assert result.accepted == 1
    assert run.state == State.FAILED


def test_an_attempt_that_a_launched_run_does_not_have_is_refused(launch_one, make_record):
    with pytest.raises(InvalidInput, match="records.1.attempt: this run has no attempt 2"):
        ingest.store_records(launch_one(), [make_record(0, {"a": 1}), make_record(1, {"a": 1}, attempt=2)])

    assert not Record.objects.exists()


def test_a_batch_has_its_limit(tracked, make_record):
    with pytest.raises(InvalidInput, match="at most 5,000 items, not 5,001"):
        ingest.store_records(tracked, [make_record(0, {})] * 5001)


@pytest.mark.parametrize("size", [1, 300])
def test_queries_do_not_grow_with_the_batch(tracked, make_record, size, django_assert_num_queries):
    batch = [make_record(i, {f"m{j}": 0.5 for j in range(20)}) for i in range(size)]

    # savepoint, run, attempts, empty table, COPY, series, insert, summary, run, release
    with django_assert_num_queries(10):
        ingest.store_records(tracked, batch)


def test_an_empty_batch_is_a_heartbeat(tracked):
    result = ingest.store_records(tracked, [])

    assert (result.accepted, result.duplicates) == (0, 0)
    assert Run.objects.get(pk=tracked.pk).heartbeat_at is not None


@pytest.mark.django_db(transaction=True)
def test_nothing_stays_in_the_session_after_a_commit(project, user, make_record):
    from tests.launching import tracked_run

    run = tracked_run(user=user, project=project, name="elsewhere")
    ingest.store_records(run, [make_record(0, {"a": 1})])

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM incoming_record")
        assert cursor.fetchone() == (0,)


def test_compute_that_is_not_known_stays_unknown(tracked, make_record):
    known = make_record(0, {"eval/pass_rate": 0.5})
    unknown = make_record(1, {"eval/pass_rate": 0.6})
    unknown = unknown.model_copy(
        update={"compute": Compute(device_hours=None, flops=None, tokens=unknown.compute.tokens)}
    )

    ingest.store_records(tracked, [known, unknown])
    assert services.rebuild([tracked.pk]) >= 0

    points = Point.objects.order_by("seq").values_list("device_hours", "flops", "tokens")
    assert [p[0] is None for p in points] == [False, True]
    assert [p[2] is None for p in points] == [False, False]
    assert Summary.objects.get(run=tracked).used_hours is None
    assert len(effective_points(tracked, "eval/pass_rate")) == 2
