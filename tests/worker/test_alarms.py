import pytest
from django.utils import timezone

from webapp.record.runs.models import Run
from worker.followup import ALARMS_INTERVAL_MS, judge_or_wait
from worker.reconcile import judge_wanted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("with_broker")]


def want(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(alarms_wanted_at=timezone.now())


def is_wanted(run: Run) -> bool:
    run.refresh_from_db()
    return run.alarms_wanted_at is not None


def test_nothing_is_done_where_nothing_is_wanted(run: Run) -> None:
    assert judge_or_wait(run.pk) is None
    want(run)
    assert judge_or_wait(run.pk) is None  # the first call has not used up the turn

    assert not is_wanted(run)


def test_wishes_within_the_interval_share_one_turn_after_it(run: Run) -> None:
    want(run)
    judge_or_wait(run.pk)
    want(run)
    wait_seconds = judge_or_wait(run.pk)

    assert wait_seconds is not None and 0 < wait_seconds <= ALARMS_INTERVAL_MS / 1000
    assert [judge_or_wait(run.pk) for _ in range(3)] == [None] * 3
    assert is_wanted(run)


def test_the_beat_finds_a_wish_whose_hint_was_lost(run: Run) -> None:
    want(run)

    assert judge_wanted() == 1
    assert not is_wanted(run)
    assert judge_wanted() == 0
