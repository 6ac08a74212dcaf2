"""The table of states."""

import pytest

from webapp.runs.models import Run, State
from webapp.runs.states import ACTIVE, ENDED, LEAVES, move


def test_every_state_is_active_or_ended_and_has_a_way_in():
    assert frozenset(State) == ACTIVE | ENDED
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
