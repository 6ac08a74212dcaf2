"""Attempts: what is resumed, which of them speaks for the run, and those that are lost."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.webapp.runs.steps import claim, observe, submit
from webapp.errors import Conflict, InvalidInput
from webapp.runs import ingest, launch, lifecycle
from webapp.runs.models import Attempt, Dispatch, Run, State


def test_a_job_that_ray_forgot_is_lost_after_a_minute_of_silence(launch_one):
    run = launch_one()
    submit(run)
    observe(run, None)
    at_first = run.state
    long_ago = timezone.now() - timedelta(minutes=5)
    Dispatch.objects.filter(run=run).update(done_at=long_ago)
    Attempt.objects.filter(run=run).update(created_at=long_ago)

    observe(run, None)

    assert (at_first, run.state) == (State.STARTING, State.LOST)
    assert "Ray does not know its job" in run.state_reason


def test_a_lost_run_that_speaks_again_runs_again(launch_one, make_record):
    run = launch_one()
    submit(run)
    Run.objects.filter(pk=run.pk).update(state=State.LOST, ended_at=timezone.now())
    Attempt.objects.filter(run=run).update(state=State.LOST)

    ingest.store_records(run, [make_record(0, {"a": 1.0})])

    run.refresh_from_db()
    assert (run.state, run.ended_at) == (State.RUNNING, None)


def test_a_job_of_an_earlier_attempt_does_not_touch_the_run(launch_one):
    run = launch_one()
    submit(run)
    observe(run, "FAILED")
    launch.resume_run(run, user=None)

    lifecycle.observe_job(run_id=run.pk, attempt=1, job_status="SUCCEEDED")

    run.refresh_from_db()
    assert (run.state, run.attempt_number) == (State.QUEUED, 2)


def test_unfinished_attempts_are_those_on_the_cluster(launch_one, tracked):
    queued, submitted = launch_one(), launch_one(seed=1)
    submit(submitted)

    (row,) = lifecycle.unfinished_attempts()

    assert (row.run_id, row.attempt, row.state) == (submitted.pk, 1, "starting")
    assert queued.state == State.QUEUED


def test_resume_is_the_next_attempt(launch_one):
    run = launch_one()
    submit(run)
    observe(run, "FAILED")

    launch.resume_run(run, user=None)
    spec = launch.job_spec(claim(run))

    assert (run.state, run.attempt_number, run.ended_at, run.state_reason) == (State.QUEUED, 2, None, "")
    assert spec.resume is True
    assert spec.submission_id == f"run-{run.pk}-a2"


def test_a_lost_attempt_is_stopped_when_the_next_one_starts(launch_one):
    run = launch_one()
    submit(run)
    Run.objects.filter(pk=run.pk).update(state=State.LOST)
    run.refresh_from_db()

    launch.resume_run(run, user=None)

    kinds = {(d.attempt, d.kind) for d in lifecycle.claim_dispatches()}
    assert kinds == {(1, "stop"), (2, "submit")}


def test_what_cannot_be_resumed(launch_one, tracked, make_record):
    run = launch_one(budget_hours=1.0)
    with pytest.raises(Conflict, match="only an ended run"):
        launch.resume_run(run, user=None)
    with pytest.raises(Conflict, match="trains elsewhere"):
        launch.resume_run(tracked, user=None)

    submit(run)
    ingest.store_records(run, [make_record(1, {"eval/pass_rate": 0.5}, hours=1.0)])
    observe(run, "SUCCEEDED")
    with pytest.raises(Conflict, match="budget of 1 device-hours is spent"):
        launch.resume_run(run, user=None)


def test_a_tracked_run_gets_the_attempts_that_its_trainer_names(tracked):
    lifecycle.report_started(tracked, attempt=2, resumed_from_step=10)

    assert (tracked.attempt_number, tracked.state) == (2, State.RUNNING)
    assert [a.state for a in tracked.attempts.order_by("number")] == [State.LOST, State.RUNNING]


def test_a_launched_run_has_only_the_attempts_it_was_given(launch_one):
    run = launch_one()

    for report in (
        lambda: lifecycle.report_started(run, attempt=2),
        lambda: lifecycle.report_finished(run, attempt=2, state="failed"),
    ):
        with pytest.raises(InvalidInput) as caught:
            report()
        assert caught.value.field == "attempt"
