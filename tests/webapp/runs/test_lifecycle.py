"""The way of a run through its states, without broker, worker process or cluster."""

import pytest

from tests.webapp.runs.steps import claim, observe, submit
from webapp.errors import Conflict
from webapp.runs import ingest, lifecycle
from webapp.runs.models import Attempt, Dispatch, Run, State


def test_the_whole_way(launch_one, make_record):
    run = launch_one()
    states = [run.state]

    dispatch = claim(run)
    run.refresh_from_db()
    states.append(run.state)
    lifecycle.dispatch_done(dispatch)
    run.refresh_from_db()
    states.append(run.state)
    lifecycle.report_started(run, attempt=1, device={"cores": 2})
    states.append(run.state)
    ingest.store_records(run, [make_record(1, {"eval/pass_rate": 0.2})])
    lifecycle.report_finished(run, attempt=1, state="succeeded")
    states.append(run.state)

    assert states == ["queued", "submitting", "starting", "running", "succeeded"]
    assert run.started_at < run.ended_at
    assert Attempt.objects.get(run=run).state == State.SUCCEEDED
    assert lifecycle.claim_dispatches() == []
    assert lifecycle.unfinished_attempts() == []


def test_every_change_grows_the_version(launch_one):
    run = launch_one()
    versions = [run.version]
    for step in (
        lambda: submit(run),
        lambda: lifecycle.report_started(run, attempt=1),
        lambda: lifecycle.report_finished(run, attempt=1, state="failed", message="out of memory"),
    ):
        step()
        run.refresh_from_db()
        versions.append(run.version)

    assert versions == sorted(set(versions))
    assert run.state_reason == "out of memory"


def test_a_queued_run_is_cancelled_at_once_and_never_sent(launch_one, user):
    run = lifecycle.cancel_run(launch_one(), user=user)

    assert (run.state, run.state_reason) == (State.CANCELLED, "Cancelled by ada.")
    assert lifecycle.claim_dispatches() == []


def test_a_running_run_is_asked_to_stop_and_is_cancelled_when_its_job_has(launch_one, user):
    run = launch_one()
    submit(run)
    lifecycle.report_started(run, attempt=1)

    lifecycle.cancel_run(run, user=user)
    stop = claim(run)
    lifecycle.dispatch_done(stop)
    observe(run, "RUNNING")
    while_stopping = run.state
    observe(run, "STOPPED")

    assert stop.kind == Dispatch.Kind.STOP
    assert while_stopping == State.STOPPING
    assert (run.state, run.state_reason) == (State.CANCELLED, "Cancelled by ada.")


def test_cancelling_twice_is_cancelling_once(launch_one):
    run = launch_one()
    submit(run)

    lifecycle.cancel_run(run, user=None)
    version = run.version
    lifecycle.cancel_run(run, user=None)

    assert run.version == version
    assert Dispatch.objects.filter(run=run, kind="stop").count() == 1


@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_an_ended_run_cannot_be_cancelled(launch_one, state):
    run = launch_one()
    submit(run)
    lifecycle.report_finished(run, attempt=1, state=state)

    with pytest.raises(Conflict, match=f"already ended: {state}"):
        lifecycle.cancel_run(run, user=None)


def test_finishing_twice_is_finishing_once_and_otherwise_a_conflict(launch_one):
    run = launch_one()
    submit(run)
    lifecycle.report_finished(run, attempt=1, state="failed", message="boom")
    version = run.version

    lifecycle.report_finished(run, attempt=1, state="failed", message="boom")

    assert Run.objects.get(pk=run.pk).version == version
    with pytest.raises(Conflict):
        lifecycle.report_finished(run, attempt=1, state="succeeded")


@pytest.mark.parametrize(
    ("status", "state"),
    [("SUCCEEDED", State.SUCCEEDED), ("FAILED", State.FAILED), ("STOPPED", State.CANCELLED)],
)
def test_how_a_job_ended_is_how_its_run_ended(launch_one, status, state):
    run = launch_one()
    submit(run)

    observe(run, status)

    assert run.state == state
    assert run.attempts.get().state == state


def test_a_failed_job_says_why_with_its_message_or_its_last_line(launch_one):
    run, other = launch_one(), launch_one(seed=1)
    submit(run)
    submit(other)

    observe(run, "FAILED", message="exit code 1")
    observe(other, "FAILED", log_tail="loading\nValueError: no such task\n\n")

    assert run.state_reason == "exit code 1"
    assert other.state_reason == "ValueError: no such task"


def test_what_the_trainer_said_stays_when_the_cluster_agrees(launch_one):
    run = launch_one()
    submit(run)
    lifecycle.report_finished(run, attempt=1, state="failed", message="out of memory")

    observe(run, "FAILED", message="exit code 1")

    assert run.state_reason == "out of memory"


def test_exit_zero_after_a_stop_request_is_the_stop(launch_one, user):
    run = launch_one()
    submit(run)
    lifecycle.cancel_run(run, user=user)

    observe(run, "SUCCEEDED")

    assert (run.state, run.state_reason) == (State.CANCELLED, "Cancelled by ada.")


def test_a_waiting_job_says_what_it_waits_for(launch_one):
    run = launch_one()
    submit(run)
    observe(run, "PENDING", message="waits for 2 CPUs")
    version = run.version

    observe(run, "PENDING", message="waits for 2 CPUs")

    assert (run.state, run.state_reason) == (State.STARTING, "waits for 2 CPUs")
    assert run.version == version


def test_the_log_is_kept_by_its_end(launch_one):
    run = launch_one()
    submit(run)
    observe(run, "RUNNING", log_tail="a\0b" + "x" * 70_000)
    version = run.version

    observe(run, "RUNNING", log_tail="a\0b" + "x" * 70_000)

    assert run.attempts.get().log_tail == "x" * 65_536
    assert run.version == version


def test_a_stopping_job_that_ray_forgot_is_cancelled(launch_one):
    run = launch_one()
    submit(run)
    lifecycle.cancel_run(run, user=None)

    observe(run, None)

    assert run.state == State.CANCELLED


def test_a_tracked_run_is_cancelled_here_and_goes_on_there(tracked, make_record):
    lifecycle.cancel_run(tracked, user=None)

    result = ingest.store_records(tracked, [make_record(0, {"a": 1.0})])

    tracked.refresh_from_db()
    assert (tracked.state, result.accepted) == (State.CANCELLED, 1)
