"""Reconciliation's judgement: from any state, with any word of Ray, always to a drawn state, and twice is once."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from webapp.record.runs import lifecycle, observation
from webapp.record.runs.models import Attempt, Dispatch, Run, State, Transition
from webapp.record.runs.observation import (
    LOADS,
    JobStatus,
    Unfinished,
    failure_of,
    observe,
    reason_of,
    unfinished_attempts,
    verdict,
)
from webapp.record.runs.states import ACTIVE, ENDED, LEAVES

NOW = datetime.fromisoformat("2026-03-01T12:00:00+00:00")
STATUSES = ("PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED")
MESSAGES = (
    "",
    "Job entrypoint command failed with exit code 1, last",
    "exit code 75",
    "exit code -9",
    "node died",
)

rows = st.builds(
    Unfinished,
    run_id=st.just("r"),
    project_id=st.just(1),
    attempt=st.just(1),
    submission_id=st.just("run-r-a1"),
    state=st.sampled_from(sorted(ACTIVE | {State.LOST})),
    reason=st.sampled_from(["", "Cancelled by ada; waits for its job to stop."]),
    heard_at=st.integers(-600, 0).map(lambda seconds: NOW + timedelta(seconds=seconds)),
    is_unsent=st.booleans(),
)
jobs = st.none() | st.builds(JobStatus, st.sampled_from(STATUSES), st.sampled_from(MESSAGES))


def after(row, found):
    """The row once the verdict is carried out, as the next round reads it."""
    if found is None or found.to is None:
        return row if found is None else Unfinished(**vars(row) | {"reason": found.reason})
    sent = {"is_unsent": row.is_unsent and not found.sent}
    return Unfinished(**vars(row) | {"state": found.to, "reason": found.reason} | sent)


@given(row=rows, job=jobs, answered=st.booleans())
def test_from_any_state_to_a_drawn_one_and_twice_is_once(row, job, answered):
    found = verdict(row, job, NOW, answered=answered)
    if found is None:
        return
    if found.to is not None and found.to != row.state:
        assert row.state in LEAVES[found.to]
    settled = after(row, found)
    if settled.state in ENDED - {State.LOST}:
        return  # is not looked at again
    again = verdict(settled, job, NOW, answered=answered)
    assert again is None or again.to == settled.state


@given(row=rows)
def test_silence_alone_never_ends_what_ray_has(row):
    found = verdict(row, JobStatus("RUNNING"), NOW)

    assert found is None or found.to in (None, State.STARTING)


def test_a_job_that_has_begun_is_not_said_to_wait(launch_one):
    run = submitted(launch_one())
    reasons = []
    of_ray = "Job has not started yet. It may be waiting for the runtime environment to be set up."
    for job in (
        JobStatus("PENDING", of_ray),
        JobStatus("PENDING", "Waits for its devices."),
        JobStatus("RUNNING", "Job is running."),
    ):
        look({name_of(run): job})
        run.refresh_from_db()
        reasons.append(run.state_reason)

    assert reasons == ["Ray starts its job.", "Waits for its devices.", LOADS] and run.state == State.STARTING


@given(row=rows)
def test_what_ray_does_not_know_is_lost_or_over_within_a_minute(row):
    silent = NOW - row.heard_at > timedelta(seconds=60)
    found = verdict(row, None, NOW)

    if silent and not row.is_unsent and row.state in (State.SUBMITTING, State.STARTING, State.RUNNING):
        assert found is not None and found.to == State.LOST
    if row.is_unsent or row.state == State.QUEUED:
        assert found is None


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Job entrypoint command failed with exit code 1, last available logs", "recipe"),
        ("failed with exit code 2", "recipe"),
        ("", "recipe"),
        ("failed with exit code 75, last available logs", "infrastructure"),
        ("failed with exit code -9. No logs available.", "infrastructure"),
        ("failed with exit code 137", "infrastructure"),
        ("Job supervisor actor died: the node is gone", "infrastructure"),
    ],
)
def test_whose_failure_it_was(message, kind):
    assert failure_of(message) == kind


KILLED = """Job entrypoint command failed with exit code -9, last available logs (truncated to 20,000 chars):
2026-11-22 11:40:02,101\tINFO worker.py:1691 -- Using address 127.0.0.1:6379 set in the environment variable RAY_ADDRESS
2026-11-22 11:40:02,118\tINFO worker.py:1832 -- Connecting to existing Ray cluster at address: 127.0.0.1:6379...
\x1b[36m(Generator pid=4711)\x1b[0m generator 0: 32 prompts of 16 answers, last available logs of exit code 1
step 12: pass rate 0.41
"""  # as Ray 2.60 writes it


ENDED_ITSELF = """Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):
2026-11-23 07:02:35,303\tINFO job_manager.py:581 -- Runtime env is setting up.
Running entrypoint for job run-v4sk8vap71-a1: exec python -m training run recipe.yaml --run-dir /runs/v4sk8vap71
error: model: /models/8b has no config.json

"""


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (KILLED, "The driver process was killed by signal 9 (SIGKILL). "
         "Ray says: Job entrypoint command failed with exit code -9."),
        ("Job entrypoint command failed with exit code -15. No logs available.",
         "The driver process was killed by signal 15 (SIGTERM). "
         "Ray says: Job entrypoint command failed with exit code -15. No logs available."),
        ("Job entrypoint command failed with exit code 137, last available logs (truncated to 20,000 chars):\nx",
         "The driver process was killed by signal 9 (SIGKILL). "
         "Ray says: Job entrypoint command failed with exit code 137."),
        ("failed with exit code 255", "failed with exit code 255"),
        ("failed with exit code 1, last available logs (truncated to 20,000 chars):\nValueError: x",
         "failed with exit code 1, last available logs (truncated to 20,000 chars):\nValueError: x"),
        (ENDED_ITSELF, "model: /models/8b has no config.json"),
        ("Job supervisor actor died: the node is gone", "Job supervisor actor died: the node is gone"),
        (" ", "The job failed without a message."),
    ],
)  # fmt: skip
def test_what_a_page_says_of_it(message, reason):
    assert reason_of(message) == reason


# --- on stored runs -------------------------------------------------------------------------------------------


def submitted(run):
    for dispatch in lifecycle.claim_dispatches(run_id=run.pk):
        lifecycle.dispatch_done(dispatch)
    run.refresh_from_db()
    return run


def name_of(run):
    return f"run-{run.pk}-a{run.attempt_number}"


def look(jobs):
    observe(unfinished_attempts(), jobs)


def silent_for(run, seconds):
    then = timezone.now() - timedelta(seconds=seconds)
    Attempt.objects.filter(run=run).update(created_at=then, started_at=then)
    Dispatch.objects.filter(run=run).update(done_at=then)
    Run.objects.filter(pk=run.pk).update(heartbeat_at=then)


@pytest.mark.parametrize("state", [State.QUEUED, State.SUBMITTING, State.LOST])
@pytest.mark.parametrize("status", ["PENDING", "RUNNING"])
def test_an_orphaned_job_is_adopted(launch_one, state, status):
    run = launch_one()
    Run.objects.filter(pk=run.pk).update(state=state)
    run.attempts.update(state=state, ended_at=timezone.now() if state == State.LOST else None)

    look({name_of(run): JobStatus(status)})

    run.refresh_from_db()
    assert (run.state, run.ended_at) == (State.STARTING, None)
    assert lifecycle.claim_dispatches() == []  # it is not submitted again
    assert Transition.objects.filter(run=run).latest("id").part == "reconciliation"


def test_a_silent_run_of_an_unreachable_ray_is_lost_and_a_speaking_one_is_not(launch_one):
    silent, speaking = submitted(launch_one()), submitted(launch_one(seed=1))
    for run in (silent, speaking):
        lifecycle.report_started(run, attempt=1)
    silent_for(silent, 50)

    look(None)

    silent.refresh_from_db()
    speaking.refresh_from_db()
    assert (silent.state, speaking.state) == (State.LOST, State.RUNNING)
    assert "Ray cannot be asked" in silent.state_reason


def test_the_number_of_queries_does_not_grow_with_the_runs(launch_one):
    def queries(runs):
        said = ["PENDING", "RUNNING", "FAILED", "SUCCEEDED", "STOPPED"]
        known = {name_of(run): JobStatus(said[i % 5], "exit code 75") for i, run in enumerate(runs)}
        with CaptureQueriesContext(connection) as seen:
            look(known)
            lifecycle.retry_failed(())
            observation.stop_orphans(known, unfinished_attempts())
        return len(seen)

    few = queries([submitted(launch_one(seed=seed)) for seed in range(5)])
    many = queries([submitted(launch_one(seed=10 + seed)) for seed in range(25)])

    assert many == few


def test_a_second_look_changes_nothing(launch_one):
    runs = [submitted(launch_one(seed=seed)) for seed in range(5)]
    known = {name_of(run): JobStatus(status, "m") for run, status in zip(runs, STATUSES, strict=True)}
    look(known)
    before = list(Run.objects.order_by("pk").values_list("pk", "state", "version", "state_reason"))

    look(known)

    assert list(Run.objects.order_by("pk").values_list("pk", "state", "version", "state_reason")) == before


def test_a_job_whose_run_ended_long_ago_is_asked_to_stop_once(launch_one):
    run = submitted(launch_one())
    lifecycle.report_finished(run, attempt=1, state="failed")
    known = {name_of(run): JobStatus("RUNNING"), "run-of-somebody-else-a1": JobStatus("RUNNING")}

    at_first = observation.stop_orphans(known, [])
    Attempt.objects.filter(run=run).update(ended_at=timezone.now() - timedelta(minutes=3))
    later = [observation.stop_orphans(known, []) for _ in range(2)]

    assert (at_first, later) == (0, [1, 0])
    assert [d.kind for d in lifecycle.claim_dispatches()] == [Dispatch.Kind.STOP]


def test_a_silent_tracked_run_is_lost_and_comes_back_with_its_next_word(tracked, settings):
    from webapp.record.runs import ingest

    settings.TRACKED_LOST_MINUTES = 10
    assert observation.lose_silent_trackers() == 0
    then = timezone.now() - timedelta(minutes=11)
    Run.objects.filter(pk=tracked.pk).update(created_at=then, started_at=then)

    assert observation.lose_silent_trackers() == 1
    tracked.refresh_from_db()
    lost = (tracked.state, tracked.state_reason)
    ingest.store_records(tracked, [])  # a heartbeat
    tracked.refresh_from_db()

    assert lost == (State.LOST, "Nothing was heard from its trainer for 10 minutes.")
    assert (tracked.state, tracked.ended_at) == (State.RUNNING, None)


def test_an_earlier_attempt_that_speaks_is_no_sign_of_the_next_one(launch_one, make_record):
    from webapp.record.runs import ingest, launch

    run = submitted(launch_one())
    lifecycle.report_finished(run, attempt=1, state="failed")
    launch.resume_run(run, user=None)

    ingest.store_records(run, [make_record(1, {"a": 1.0})], reporter=1)

    run.refresh_from_db()
    assert (run.state, run.heartbeat_at) == (State.QUEUED, None)
