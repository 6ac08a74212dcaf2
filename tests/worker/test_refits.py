import pytest
from django.utils import timezone

from tests.waiting import wait_until
from webapp.record.runs.models import Record, Run
from worker.followup import MIN_INTERVAL_MS, refit_or_wait

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("with_broker")]


def want(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(refit_wanted_at=timezone.now())


def is_wanted(run: Run) -> bool:
    run.refresh_from_db()
    return run.refit_wanted_at is not None


def test_first_wish_is_served_at_once(run: Run) -> None:
    want(run)

    assert refit_or_wait(run.pk) is None
    assert not is_wanted(run)


def test_nothing_is_done_where_nothing_is_wanted(run: Run) -> None:
    assert refit_or_wait(run.pk) is None
    want(run)
    refit_or_wait(run.pk)

    assert not is_wanted(run)  # the first call has not used up the turn


def test_wishes_within_a_second_share_one_refit_after_it(run: Run) -> None:
    want(run)
    refit_or_wait(run.pk)
    want(run)
    wait_seconds = refit_or_wait(run.pk)
    others = [refit_or_wait(run.pk) for _ in range(5)]

    assert wait_seconds is not None and 0 < wait_seconds <= MIN_INTERVAL_MS / 1000
    assert others == [None] * 5
    assert is_wanted(run)
    wait_until(lambda: refit_or_wait(run.pk) is None and not is_wanted(run), 5)


def test_runs_do_not_wait_for_each_other(run: Run) -> None:
    from tests.worker.conftest import make_run

    other = make_run()
    want(run)
    want(other)
    refit_or_wait(run.pk)
    refit_or_wait(other.pk)

    assert not is_wanted(run) and not is_wanted(other)


def test_points_are_made_anew_before_the_refit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.record.runs.meaning.WORKER_SECONDS", 0.0)
    Run.objects.filter(pk=run.pk).update(remaking={"undo": [], "after": -1})
    newest = Record.objects.create(
        run=run, attempt=1, seq=0, step=0, time=timezone.now(), compute={}, metrics={}
    )
    want(run)

    assert refit_or_wait(run.pk) == MIN_INTERVAL_MS / 1000
    assert is_wanted(run) and run.remaking == {"undo": [], "after": newest.pk}
    wait_until(lambda: refit_or_wait(run.pk) is None and not is_wanted(run), 5)
    assert run.remaking is None
