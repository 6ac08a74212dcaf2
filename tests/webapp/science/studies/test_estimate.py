"""What a study will cost is said with what that is known from."""

from datetime import timedelta

import pytest

from tests.webapp.science.studies.conftest import TINY
from webapp.record.runs.models import Run
from webapp.science.studies.planning import duration, estimate, pace_of, plan


def test_without_earlier_runs_it_says_that_nothing_is_known(project, model_folder):
    found = estimate(project, plan(project, TINY))

    assert (found.runs, found.device_hours, found.devices) == (6, 96.0, (2, 2))
    assert found.longest == pytest.approx(8.0)  # 16 device-hours on two devices
    assert found.one_by_one == pytest.approx(48.0)
    assert "Nothing is known" in found.sentences[-1]
    assert "6 runs, 96.0 device-hours" in found.sentences[0]


def test_earlier_runs_say_how_much_longer_a_run_lasts(project, make_run):
    run = make_run(8, ended="succeeded")  # 8 device-hours on two devices: 4 hours of training
    Run.objects.filter(pk=run.pk).update(ended_at=run.started_at + timedelta(hours=6))

    found = estimate(project, plan(project, TINY))

    assert found.pace.stretch == pytest.approx(1.5)
    assert found.longest == pytest.approx(12.0)
    assert "1 earlier run on the same task and model" in found.sentences[-1]
    assert not pace_of(project, "math", "8b").same


@pytest.mark.parametrize(
    ("hours", "text"), [(0.002, "7 s"), (0.5, "30 min"), (3.44, "3.4 h"), (100.0, "4.17 d"), (0.0001, "1 s")]
)
def test_durations_in_words(hours, text):
    assert duration(hours) == text
