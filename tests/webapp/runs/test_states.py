"""The table of states."""

import threading
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.utils import timezone

from training.records import Record
from webapp.errors import Conflict, ServiceError
from webapp.runs import (
    drafts,
    extending,
    ingest,
    launch,
    lifecycle,
    observation,
    places,
    retrying,
)
from webapp.runs.models import Run, State, Transition
from webapp.runs.observation import JobStatus
from webapp.runs.states import ACTIVE, ENDED, LEAVES, Move, move, move_many


def test_every_state_is_active_or_ended_and_has_a_way_in():
    assert frozenset(State) == ACTIVE | ENDED | {State.DRAFT}
    assert not ACTIVE & ENDED
    assert set(LEAVES) == set(State)


@pytest.mark.parametrize("ended", sorted(ENDED - {State.LOST}))
def test_nothing_leaves_an_end_but_a_new_attempt(ended):
    assert all(ended not in sources for sources in LEAVES.values())


def test_a_move_is_made_once(launch_one):
    run = launch_one()

    assert move(run, State.SUBMITTING, attempt=1) is True
    assert move(run, State.SUBMITTING, attempt=1) is False
    assert Run.objects.get(pk=run.pk).version == 2


def test_a_move_for_an_attempt_to_come_is_refused(launch_one):
    assert move(launch_one(), State.SUBMITTING, attempt=2) is False


# --- every service from every state ---------------------------------------------------------------------------

RESUMED = {(ended, State.QUEUED) for ended in ENDED}
DRAWN = {(source, to) for to, sources in LEAVES.items() for source in sources} | RESUMED


def observed(status, *, answered=True):
    def observe(run, user):
        name = f"run-{run.pk}-a{run.attempt_number}"
        jobs = ({name: JobStatus(status)} if status else {}) if answered else None
        observation.observe(observation.unfinished_attempts(), jobs)

    return observe


def dispatched(run, user):
    for dispatch in lifecycle.claim_dispatches():
        lifecycle.dispatch_done(dispatch)


def refused(*, retry):
    def refuse(run, user):
        for dispatch in lifecycle.claim_dispatches():
            lifecycle.dispatch_failed(dispatch, "no", retry=retry)

    return refuse


def reported(run, user):
    record = {"attempt": 1, "seq": 0, "step": 1, "time": "2026-01-01T00:00:00+00:00", "metrics": {"a": 1.0}}
    compute = {"device_hours": 0.1, "flops": 1.0, "tokens": 1.0}
    ingest.store_records(run, [Record.model_validate(record | {"compute": compute})])


SERVICES = (
    {
        "cancel": lambda run, user: lifecycle.cancel_run(run, user=user),
        "resume": lambda run, user: launch.resume_run(run, user=user),
        "launch draft": lambda run, user: drafts.launch_draft(run, user=user),
        "delete draft": lambda run, user: drafts.delete_draft(run, user=user),
        "extend": lambda run, user: extending.extend_run(run, 2.0, user=user),
        "priority": lambda run, user: places.set_priority(run, 2, user=user),
        "started": lambda run, user: lifecycle.report_started(run, attempt=1),
        "heartbeat": lambda run, user: ingest.store_records(run, []),
        "reported": reported,
        "dispatched": dispatched,
        "refused for good": refused(retry=False),
        "refused for now": refused(retry=True),
        "retried": lambda run, user: retrying.retry_failed(()),
        "unreachable": observed(None, answered=False),
        "unknown": observed(None),
    }
    | {
        f"{end} reported": lambda run, user, end=end: lifecycle.report_finished(run, attempt=1, state=end)
        for end in ("succeeded", "failed", "cancelled")
    }
    | {
        f"Ray says {status}": observed(status)
        for status in ("PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED")
    }
)


def put_into(run, state):
    """The run as if it had come to that state long ago."""
    ended_at = timezone.now() - timedelta(minutes=5) if state in ENDED else None
    Run.objects.filter(pk=run.pk).update(state=state, ended_at=ended_at)
    failure = "infrastructure" if state in (State.FAILED, State.LOST) else ""
    run.attempts.update(
        state=state, failure=failure, ended_at=ended_at, created_at=timezone.now() - timedelta(hours=1)
    )
    if state not in (State.DRAFT, State.QUEUED):
        run.dispatches.update(done_at=timezone.now() - timedelta(hours=1))
    if state == State.DRAFT:
        run.attempts.all().delete()
        run.dispatches.all().delete()
    run.refresh_from_db()


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("state", list(State))
def test_no_service_leaves_the_drawing(launch_one, user, state, service):
    """Whatever is called in whatever state: the run goes along a drawn arrow, with one row for each, or stays."""
    run = launch_one()
    put_into(run, state)
    known = Transition.objects.filter(run=run).count()

    with suppress(ServiceError):
        SERVICES[service](run, user)

    now = Run.objects.filter(pk=run.pk).first()
    if now is None:
        assert (state, service) == (State.DRAFT, "delete draft")
        return
    rows = list(Transition.objects.filter(run=run).order_by("id")[known:])
    path = [state, *(row.to_state for row in rows)]
    assert [row.from_state for row in rows] == path[:-1]
    assert set(pairwise(path)) <= DRAWN
    assert now.state == path[-1]
    assert all(row.actor_id or row.part for row in rows)
    current = now.attempts.filter(number=now.attempt_number).first()
    assert current is None and now.state == State.DRAFT or current.state == now.state


def test_many_moves_are_one_statement(launch_one, django_assert_num_queries):
    runs = [launch_one(seed=seed) for seed in range(5)]
    moves = [Move(run.pk, 1, State.SUBMITTING) for run in runs] + [Move(runs[0].pk, 2, State.FAILED)]

    with django_assert_num_queries(1):
        moved = move_many(moves, part="dispatch")

    assert moved == {(run.pk, 1) for run in runs}
    assert Transition.objects.filter(to_state=State.SUBMITTING, from_state=State.QUEUED).count() == 5


@pytest.mark.django_db(transaction=True)
def test_of_two_who_press_at_once_one_wins_and_the_other_is_told(launch_one, user):
    run = launch_one()
    put_into(run, State.FAILED)
    barrier, answers = threading.Barrier(4), []

    def press():
        mine = Run.objects.get(pk=run.pk)
        barrier.wait()
        try:
            launch.resume_run(mine, user=user)
            answers.append("resumed")
        except Conflict as error:
            answers.append(error.message)
        connection.close()

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers)[-1] == "resumed" and answers.count("resumed") == 1
    assert all("queued" in answer for answer in answers if answer != "resumed")
    assert Run.objects.get(pk=run.pk).attempt_number == 2


def test_a_launch_and_a_stop_are_told_with_who_did_them(launch_one, user):
    run = launch_one()
    lifecycle.cancel_run(run, user=user)

    rows = [(row.from_state, row.to_state, row.actor, row.reason) for row in run.transitions.all()]

    assert rows == [("", "queued", user, ""), ("queued", "cancelled", user, "Cancelled by ada.")]
