"""Outcomes come from the worker: with the refit of the run that passed, and by the sweep that finds what was lost."""

from datetime import timedelta

import numpy as np
import pytest
import redis
from django.utils import timezone

from tests.members import member
from tests.predicting import predicted
from webapp.record.runs.models import Point, Run, Series
from webapp.science.predictions.models import Outcome, Prediction
from worker import followup
from worker.followup import refit_or_wait
from worker.reconcile import reconcile_all

pytestmark = pytest.mark.usefixtures("with_broker")


def evaluate(run: Run, hours: list[float]) -> None:
    series, _ = Series.objects.get_or_create(run=run, metric="eval/pass_rate")
    first = Point.objects.filter(series=series).count()
    Point.objects.bulk_create(
        Point(
            series=series, attempt=1, seq=first + i, step=int(1000 * c), time=timezone.now() + timedelta(minutes=1),
            device_hours=c, value=0.2 + 0.4 / (1 + c**-2) + 0.002 * (-1) ** i, stderr=0.005,
        )
        for i, c in enumerate(hours)
    )  # fmt: skip


@pytest.fixture
def claim(run: Run) -> Prediction:
    evaluate(run, [float(c) for c in np.geomspace(0.1, 8.0, 30)])
    return predicted(user=member("ada", project=run.project), run=run)


def test_a_refit_scores_what_the_run_decides(run: Run, claim: Prediction) -> None:
    evaluate(run, [12.0, 17.0])
    Run.objects.filter(pk=run.pk).update(refit_wanted_at=timezone.now())
    refit_or_wait(run.pk)

    outcome = Outcome.objects.get()
    assert (outcome.prediction_id, outcome.run_id, outcome.inside) == (claim.pk, run.pk, True)


def test_a_score_that_fails_leaves_the_refit_done(
    run: Run, claim: Prediction, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run_id: str) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("webapp.science.predictions.judging.score_run", broken)
    Run.objects.filter(pk=run.pk).update(refit_wanted_at=timezone.now())
    refit_or_wait(run.pk)

    run.refresh_from_db()
    assert run.refit_wanted_at is None


def test_the_sweep_scores_what_a_lost_hint_left_once_a_minute(
    run: Run, claim: Prediction, with_broker: str
) -> None:
    evaluate(run, [16.0])
    redis.Redis.from_url(with_broker).delete("headroom:predictions:all")
    assert reconcile_all()
    assert Outcome.objects.count() == 1
    assert followup.score_overdue() == 0
