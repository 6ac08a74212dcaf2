"""The table of states."""

import threading

import pytest
from django.db import connection

from tests.webapp.record.runs.test_states_of_services import put_into
from webapp.base.errors import Conflict
from webapp.record.runs import (
    launch,
    lifecycle,
)
from webapp.record.runs.models import Run, State, Transition
from webapp.record.runs.states import ACTIVE, ENDED, LEAVES, Move, move, move_many


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
