"""Room on the disk: a launch, a draft's launch and a resume are refused, a retry and what is queued waits for it."""

import pytest
from django.utils import timezone

from webapp.base.errors import NoRoom
from webapp.record.runs import bulk, editing, launch, lifecycle
from webapp.record.runs.models import Dispatch, Run, State
from webapp.record.runs.outbox import why_held

HELD = "waits for room on the disk of HEADROOM_HOME: 1,024 TiB must stay free"


@pytest.fixture
def is_full(settings):
    """is_full(True), is_full(False): whether the disk has less free than must stay so."""

    def set_to(full):
        settings.MIN_FREE_BYTES, settings.MIN_FREE_PERCENT = 2**50 if full else 0, 0

    set_to(False)
    return set_to


def ended(run, **how):
    for dispatch in lifecycle.claim_dispatches(run_id=run.pk):
        lifecycle.dispatch_done(dispatch)
    lifecycle.report_started(run, attempt=run.attempt_number)
    lifecycle.report_finished(run, attempt=run.attempt_number, state="failed", message="it broke", **how)
    run.refresh_from_db()
    return run


def time_is_over():
    """What waits for its next try may be tried now."""
    Dispatch.objects.filter(done_at=None).update(claimed_until=timezone.now())


def states():
    return list(Run.objects.order_by("seed").values_list("state", "attempt_number"))


def test_what_a_person_begins_is_refused_and_stays_as_it_was(launch_one, user, is_full):
    draft, failed = launch_one(seed=0, draft=True), ended(launch_one(seed=1))
    before = states()
    is_full(True)

    for begin in (
        lambda: launch_one(seed=2),
        lambda: editing.launch_draft(draft, user=user),
        lambda: launch.resume_run(failed, user=user),
    ):
        with pytest.raises(NoRoom, match=r"are free .* and 1,024 TiB must stay free") as caught:
            begin()
        assert caught.value.status == 507
    assert states() == before
    assert not Dispatch.objects.filter(done_at=None).exists()

    launch_one(seed=3, draft=True)  # writes nothing
    is_full(False)
    for run, begin in ((draft, editing.launch_draft), (failed, launch.resume_run)):
        run.refresh_from_db()
        begin(run, user=user)
        assert run.state == State.QUEUED


def test_of_many_that_are_resumed_each_is_told(launch_one, user, project, is_full):
    run = ended(launch_one())
    is_full(True)

    done = bulk.act(bulk.BulkRequest("resume", [run.pk], "k"), user=user, project=project)

    (told,) = done.outcomes
    assert told["phrase"] == "not resumed" and "must stay free" in told["words"]


def test_a_retry_waits_for_room_however_long_and_goes_on(launch_one, is_full):
    run = ended(launch_one(), infrastructure=True)
    is_full(True)
    assert lifecycle.retry_failed(()) == 1
    time_is_over()

    assert lifecycle.claim_dispatches() == []
    run.refresh_from_db()
    assert (run.state, run.attempt_number, run.state_reason) == (State.QUEUED, 2, HELD)
    for _ in range(3):  # neither looked at before its time, nor written down twice
        assert lifecycle.claim_dispatches() == []
        time_is_over()
    assert lifecycle.claim_dispatches() == []
    assert lifecycle.retry_failed(()) == 0
    again = Run.objects.get(pk=run.pk)
    assert (again.version, again.retries, Dispatch.objects.get(run=run, attempt=2).tries) == (
        run.version,
        1,
        0,
    )

    is_full(False)
    time_is_over()
    (dispatch,) = lifecycle.claim_dispatches()
    assert (dispatch.run_id, dispatch.attempt) == (run.pk, 2)
    assert Run.objects.get(pk=run.pk).state_reason == ""


def test_what_was_queued_while_there_was_room_waits_as_well_but_stops_go_out(launch_one, user, is_full):
    working, waiting = launch_one(seed=0), launch_one(seed=1)
    for dispatch in lifecycle.claim_dispatches(run_id=working.pk):
        lifecycle.dispatch_done(dispatch)
    is_full(True)
    working.refresh_from_db()
    lifecycle.cancel_run(working, user=user)

    assert [dispatch.kind for dispatch in lifecycle.claim_dispatches()] == [Dispatch.Kind.STOP]
    waiting.refresh_from_db()
    assert (waiting.state, waiting.state_reason) == (State.QUEUED, HELD)
    assert why_held() == HELD
