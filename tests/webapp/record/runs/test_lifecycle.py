"""The way of a run through its states, without broker, worker process or cluster."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from tests.launching import tracked_run
from webapp.base.errors import Conflict, InvalidInput
from webapp.record.runs import ingest, launch, lifecycle, observation
from webapp.record.runs.models import Attempt, Dispatch, Run, State
from webapp.record.runs.observation import JobStatus


def claim(run):
    (dispatch,) = lifecycle.claim_dispatches(run_id=run.pk)
    return dispatch


def submit(run):
    """As far as Ray having the job."""
    lifecycle.dispatch_done(claim(run))
    run.refresh_from_db()


def observe(run, status, *, attempt=None, message="", log_tail=None):
    """A round of reconciliation in which Ray says this of the run's job."""
    name = f"run-{run.pk}-a{attempt or run.attempt_number}"
    jobs = {} if status is None else {name: JobStatus(status, message)}
    rows = [row for row in observation.unfinished_attempts() if row.submission_id == name]
    last_lines = {name: observation.last_line(log_tail)} if log_tail else {}
    observation.observe(rows, jobs, last_lines)
    if log_tail is not None:
        observation.keep_logs({name: log_tail})
    run.refresh_from_db()


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
    assert observation.unfinished_attempts() == []


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


def test_the_job_that_is_submitted(launch_one, headroom_home, settings):
    from tests.webapp.tokens import authenticate

    run = launch_one()
    spec = launch.job_spec(claim(run))

    token = authenticate(spec.token)
    assert spec.submission_id == f"run-{run.pk}-a1"
    assert spec.run_dir == headroom_home / "runs" / run.pk
    assert spec.recipe == run.config
    assert spec.resume is False
    assert (token.run_id, token.scope) == (run.pk, "write")
    assert spec.token not in str(spec.env)
    assert spec.env["HEADROOM_URL"] == settings.HEADROOM_URL
    assert (spec.env["HEADROOM_RUN"], spec.env["HEADROOM_ATTEMPT"]) == (run.pk, "1")


def test_without_an_address_nothing_is_submitted(launch_one, settings):
    dispatch = claim(launch_one())
    settings.HEADROOM_URL = None

    with pytest.raises(RuntimeError, match="HEADROOM_URL is not set"):
        launch.job_spec(dispatch)


def test_a_claim_is_exclusive_until_it_runs_out(launch_one):
    run = launch_one()
    first = claim(run)

    assert lifecycle.claim_dispatches() == []
    Dispatch.objects.filter(pk=first.pk).update(claimed_until=timezone.now() - timedelta(seconds=1))
    taken_over = claim(run)

    assert (taken_over.pk, taken_over.tries) == (first.pk, 2)
    run.refresh_from_db()
    assert run.state == State.SUBMITTING


@pytest.mark.django_db(transaction=True)
def test_of_two_claims_at_the_same_time_one_wins(launch_one):
    run = launch_one()
    barrier, claims = threading.Barrier(4), []

    def work():
        barrier.wait()
        claims.append(lifecycle.claim_dispatches(run_id=run.pk))
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(map(len, claims)) == [0, 0, 0, 1]
    assert Dispatch.objects.get(run=run).tries == 1


@pytest.mark.django_db(transaction=True)
def test_of_launches_with_one_key_at_the_same_time_one_makes_a_run(request_body):
    user, project = (request_body.pop(name) for name in ("user", "project"))
    request = launch.LaunchRequest(**request_body)
    barrier, results = threading.Barrier(4), []

    def work():
        barrier.wait()
        results.append(launch.launch_run(request, user=user, project=project, idempotency_key="k"))
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert Run.objects.count() == 1
    assert sorted(result.created for result in results) == [False, False, False, True]


@pytest.mark.django_db(transaction=True)
def test_batches_at_the_same_time_are_stored_once_each(project, user, make_record):
    run = tracked_run(user=user, project=project, name="elsewhere")
    batch = [make_record(i, {f"m{j}": 0.5 for j in range(i % 7)}) for i in range(300)]
    barrier, results = threading.Barrier(4), []

    def work(records):
        barrier.wait()
        results.append(ingest.store_records(run, records))
        connection.close()

    threads = [
        threading.Thread(target=work, args=(part,)) for part in (batch, batch[::-1], batch, batch[10:])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(result.accepted for result in results) == 300
    assert run.records.count() == 300


def test_a_submission_that_fails_is_tried_again_later(launch_one):
    run = launch_one()

    lifecycle.dispatch_failed(claim(run), "connection refused", retry=True)

    run.refresh_from_db()
    dispatch = Dispatch.objects.get(run=run)
    assert run.state == State.QUEUED
    assert run.state_reason == "Could not be submitted, will be tried again: connection refused"
    assert dispatch.claimed_until > timezone.now()
    assert lifecycle.claim_dispatches() == []


def test_a_submission_that_cannot_work_fails_the_run(launch_one):
    run = launch_one()

    lifecycle.dispatch_failed(claim(run), "no such folder", retry=False)

    run.refresh_from_db()
    assert (run.state, run.state_reason) == (State.FAILED, "Could not be submitted: no such folder")
    assert run.ended_at is not None
    assert Dispatch.objects.get(run=run).done_at is not None


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


def test_a_stop_waits_until_the_submission_is_settled(launch_one):
    run = launch_one()
    submission = claim(run)
    lifecycle.cancel_run(run, user=None)

    before = lifecycle.claim_dispatches()
    lifecycle.dispatch_done(submission)
    after = lifecycle.claim_dispatches()

    assert before == []
    assert [dispatch.kind for dispatch in after] == [Dispatch.Kind.STOP]
    run.refresh_from_db()
    assert run.state == State.STOPPING


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


@pytest.mark.parametrize("why", ["", "Stopped by the policy of its project: too long; 16 %"])
def test_a_run_that_its_driver_stopped_still_says_who_wanted_it(launch_one, user, why):
    run = launch_one()
    submit(run)
    lifecycle.report_started(run, attempt=1)
    lifecycle.cancel_run(run, user=None if why else user, reason=why)

    lifecycle.report_finished(run, attempt=1, state="cancelled", message="stopped on request")

    said = "Stopped by the policy of its project: too long, 16 %." if why else "Cancelled by ada."
    assert (run.state, run.state_reason) == (State.CANCELLED, said)


def test_a_run_that_stopped_by_itself_keeps_its_driver_s_words(launch_one):
    run = launch_one()
    submit(run)
    lifecycle.report_started(run, attempt=1)

    lifecycle.report_finished(run, attempt=1, state="cancelled", message="stopped on request")

    assert run.state_reason == "stopped on request"


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


def test_a_stopping_job_that_ray_forgot_is_cancelled(launch_one):
    run = launch_one()
    submit(run)
    lifecycle.cancel_run(run, user=None)

    observe(run, None)

    assert run.state == State.CANCELLED


def test_a_job_of_an_earlier_attempt_does_not_touch_the_run(launch_one):
    run = launch_one()
    submit(run)
    observe(run, "FAILED")
    launch.resume_run(run, user=None)

    observe(run, "SUCCEEDED", attempt=1)

    assert (run.state, run.attempt_number) == (State.QUEUED, 2)


def test_what_trains_elsewhere_says_when_it_was(launch_one, tracked):
    """Of a run that is sent later; a clock that is ahead counts as now, and what runs here is timed here."""
    began, ended = "2026-01-01T10:00:00+02:00", "2026-01-01T09:30:00+00:00"
    lifecycle.report_started(tracked, attempt=1, time=began)
    lifecycle.report_finished(tracked, attempt=1, state="succeeded", time=ended)
    for row in (tracked, tracked.attempts.get()):
        assert (row.started_at.isoformat(), row.ended_at.isoformat()) == ("2026-01-01T08:00:00+00:00", ended)

    now = timezone.now()
    Run.objects.update(state=State.LOST)
    lifecycle.report_started(tracked, attempt=1, time=began)
    tracked.refresh_from_db()
    assert tracked.state == "lost"  # what is told again later is no sign of life
    lifecycle.report_started(tracked, attempt=2, resumed_from_step=1, time="2999-01-01T00:00:00+00:00")
    assert now <= tracked.attempts.get(number=2).started_at <= timezone.now()
    assert tracked.started_at.isoformat() == "2026-01-01T08:00:00+00:00"
    run = launch_one()
    submit(run)
    lifecycle.report_started(run, attempt=1, time=began)
    assert run.started_at >= now


def test_a_clock_that_is_behind_ends_no_run_before_it_began(tracked):
    lifecycle.report_started(tracked, attempt=1)
    lifecycle.report_finished(tracked, attempt=1, state="succeeded", time="2026-01-01T09:30:00+00:00")
    assert tracked.ended_at == tracked.started_at


def test_a_trainer_elsewhere_that_says_nothing_is_named(tracked):
    assert observation.silence_of(tracked) == ""
    Run.objects.update(started_at=timezone.now() - timedelta(minutes=7))
    tracked.refresh_from_db()
    assert observation.silence_of(tracked).startswith(
        "Nothing was heard from its trainer for 7 minutes. After 60 "
    )
    lifecycle.report_finished(tracked, attempt=1, state="failed")
    assert observation.silence_of(tracked) == ""


def test_unfinished_attempts_are_those_on_the_cluster(launch_one, tracked):
    queued, submitted = launch_one(), launch_one(seed=1)
    submit(submitted)

    rows = {row.run_id: row for row in observation.unfinished_attempts()}

    assert set(rows) == {queued.pk, submitted.pk}
    assert (rows[submitted.pk].state, rows[submitted.pk].is_unsent) == ("starting", False)
    assert (rows[queued.pk].state, rows[queued.pk].is_unsent) == ("queued", True)


def test_resume_is_the_next_attempt(launch_one):
    run = launch_one()
    submit(run)
    observe(run, "FAILED")

    launch.resume_run(run, user=None)
    spec = launch.job_spec(claim(run))

    assert (run.state, run.attempt_number, run.ended_at, run.state_reason) == (State.QUEUED, 2, None, "")
    assert spec.resume is True
    assert spec.submission_id == f"run-{run.pk}-a2"


@pytest.mark.parametrize("written", [True, False])
def test_a_resume_without_a_checkpoint_says_that_it_begins_anew(
    launch_one, make_record, headroom_home, written
):
    run = launch_one()
    submit(run)
    ingest.store_records(run, [make_record(1, {"a": 1.0})])
    observe(run, "FAILED", message="exit code 1")
    if written:
        (headroom_home / "runs" / run.pk / "checkpoints" / "step-1").mkdir(parents=True)

    launch.resume_run(run, user=None)

    assert run.state_reason == ("" if written else "There is no checkpoint: it begins anew.")


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


def test_a_tracked_run_is_cancelled_here_and_goes_on_there(tracked, make_record):
    lifecycle.cancel_run(tracked, user=None)

    result = ingest.store_records(tracked, [make_record(0, {"a": 1.0})])

    tracked.refresh_from_db()
    assert (tracked.state, result.accepted) == (State.CANCELLED, 1)
