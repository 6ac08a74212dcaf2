"""What is claimed, submitted and stopped: each once, whoever asks at the same time."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from tests.webapp.runs.steps import claim
from webapp.runs import ingest, launch, lifecycle
from webapp.runs.models import Dispatch, Run, State


def test_the_job_that_is_submitted(launch_one, headroom_home, settings):
    from webapp.accounts.services import authenticate

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
    barrier, results = threading.Barrier(4), []

    def work():
        barrier.wait()
        results.append(launch.launch_run_once(**request_body, idempotency_key="k"))
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
    run = launch.track_run(user=user, project=project, name="elsewhere")
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
