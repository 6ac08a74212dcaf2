"""Refits keep the record of forecasts, and the reconciliation finds what they left."""

from unittest import mock

import pytest
from django.utils import timezone

from tests.webapp.science.curves.conftest import make_run, project, revision  # noqa: F401 (fixtures)
from webapp.record.runs.models import State
from webapp.science.curves.models import ForecastOrigin, ForecastOutcome
from webapp.science.curves.record import keeping
from worker import followup

pytestmark = pytest.mark.django_db


def test_trouble_with_the_record_does_not_undo_the_refit(caplog):
    followup.safely("the record of", mock.Mock(side_effect=RuntimeError("no")), "any")

    assert "the record of run any" in caplog.text


def test_a_refit_keeps_the_record(make_run):  # noqa: F811
    run = make_run(to=7.0)

    followup.safely("the record of", keeping.keep_record, run.pk)

    assert ForecastOrigin.objects.filter(run=run).count() == 2


@pytest.mark.parametrize(("turn", "judged"), [(0, 1), (1.5, 0), (None, 0)])
def test_ended_runs_are_judged_in_turns(make_run, turn, judged):  # noqa: F811
    make_run(n=5, state=State.SUCCEEDED, ended_at=timezone.now())

    with mock.patch.object(followup, "claim_turn", return_value=turn):
        assert followup.judge_overdue() == judged

    assert ForecastOutcome.objects.count() == judged


def test_without_an_ended_run_no_turn_is_taken(make_run):  # noqa: F811
    make_run()

    with mock.patch.object(followup, "claim_turn", side_effect=AssertionError):
        assert followup.judge_overdue() == 0
