"""Going on by itself: after failures of the infrastructure only, up to a limit, with back-off."""

from datetime import timedelta

import pytest
from django.utils import timezone

from webapp.record.runs import ingest, launch, lifecycle
from webapp.record.runs.models import Attempt, Dispatch, Run, State


@pytest.fixture
def failed(launch_one):
    """failed(infrastructure=True, **launch): a run whose driver ended so."""

    def make(infrastructure=True, **changes):
        run = launch_one(**changes)
        fail(run, infrastructure)
        return run

    return make


def fail(run, infrastructure=True):
    Dispatch.objects.filter(run=run, done_at=None).update(claimed_until=None)  # its waiting time is over
    for dispatch in lifecycle.claim_dispatches(run_id=run.pk):
        lifecycle.dispatch_done(dispatch)
    run.refresh_from_db()
    lifecycle.report_started(run, attempt=run.attempt_number)
    lifecycle.report_finished(
        run,
        attempt=run.attempt_number,
        state="failed",
        message="generator 0 died",
        infrastructure=infrastructure,
    )
    run.refresh_from_db()


def test_the_next_attempt_waits_and_goes_on_from_the_checkpoint(failed):
    run = failed()
    now = timezone.now()

    assert lifecycle.retry_failed(()) == 1
    assert lifecycle.retry_failed(()) == 0

    run.refresh_from_db()
    dispatch = Dispatch.objects.get(run=run, attempt=2)
    assert (run.state, run.attempt_number, run.retries, run.ended_at) == (State.QUEUED, 2, 1, None)
    assert run.state_reason == "Retry 1 of 3 in 10 s, from the newest checkpoint: generator 0 died"
    assert timedelta(seconds=9) < dispatch.claimed_until - now < timedelta(seconds=12)
    assert lifecycle.claim_dispatches() == []  # not yet
    Dispatch.objects.update(claimed_until=now)
    (claimed,) = lifecycle.claim_dispatches()
    assert launch.job_spec(claimed).resume


def test_a_failure_of_the_recipe_is_final(failed):
    run = failed(infrastructure=False)

    assert lifecycle.retry_failed(()) == 0
    run.refresh_from_db()
    assert run.state == State.FAILED


def test_the_limit_holds_and_a_resume_counts_anew(failed):
    run = failed()
    waits = []
    while lifecycle.retry_failed(()):
        waits.append(
            Dispatch.objects.get(run=run, attempt=run.attempt_number + 1).claimed_until - timezone.now()
        )
        fail(run)

    assert [round(wait.total_seconds(), -1) for wait in waits] == [10, 30, 90]
    assert (run.state, run.attempt_number, run.retries) == (State.FAILED, 4, 3)
    launch.resume_run(run, user=None)
    assert run.retries == 0
    fail(run)
    assert lifecycle.retry_failed(()) == 1


@pytest.mark.parametrize(("retries", "expected"), [(0, 0), (1, 1), (None, 1)])
def test_a_run_says_how_often(failed, retries, expected):
    failed(retries=retries)

    assert lifecycle.retry_failed(()) == expected


def test_the_installation_says_how_often(failed, settings):
    settings.RETRIES = 0
    failed()

    assert lifecycle.retry_failed(()) == 0


def test_a_lost_run_is_retried_unless_ray_still_has_its_job(failed):
    run = failed()
    Run.objects.filter(pk=run.pk).update(state=State.LOST)
    Attempt.objects.filter(run=run).update(state=State.LOST)

    assert lifecycle.retry_failed({f"run-{run.pk}-a1"}) == 0
    assert lifecycle.retry_failed(()) == 1


def test_what_somebody_stopped_archived_or_spent_stays_as_it_is(failed, make_record):
    stopped, archived, spent, old = (failed(seed=seed) for seed in range(4))
    Dispatch.objects.create(run=stopped, attempt=1, kind=Dispatch.Kind.STOP)
    Run.objects.filter(pk=archived.pk).update(archived_at=timezone.now())
    ingest.store_records(spent, [make_record(1, {"a": 1.0}, hours=0.5)])
    Attempt.objects.filter(run=old).update(ended_at=timezone.now() - timedelta(hours=2))

    assert lifecycle.retry_failed(()) == 0


def test_a_waiting_retry_can_be_cancelled(failed, user):
    run = failed()
    lifecycle.retry_failed(())
    run.refresh_from_db()

    lifecycle.cancel_run(run, user=user)

    assert run.state == State.CANCELLED
    assert lifecycle.retry_failed(()) == 0
    assert not Dispatch.objects.filter(done_at=None).exists()
