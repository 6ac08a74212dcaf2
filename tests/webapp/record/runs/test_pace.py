"""How fast runs go: only what was measured, and no wait for a place among it."""

from datetime import timedelta

import pytest

from tests.webapp.interfaces.pages.conftest import make_run, model_folder  # noqa: F401 (fixtures)
from tests.webapp.interfaces.pages.data import stretch_times
from webapp.record.runs.models import Run
from webapp.record.runs.pace import measured_runs, overheads_of, pace_of, time_left
from webapp.record.runs.selectors import span_of_runs

HOUR = timedelta(hours=1)
ASKED = {"recipe": "tiny-scalerl", "task": "arithmetic", "model": "tiny-arithmetic"}


def ended(make_run, lasted, **settings):  # noqa: F811
    """A run of 8 device-hours on two devices, five hours from its first to its newest evaluation."""
    run = make_run(8, ended="succeeded", **settings)
    Run.objects.filter(pk=run.pk).update(ended_at=run.started_at + lasted * HOUR)
    return run


def test_a_wait_for_a_place_is_no_part_of_what_a_run_takes(project, make_run):  # noqa: F811
    for seed, lasted in enumerate((6, 9, 30)):  # the first had a place at once
        ended(make_run, lasted, seed=seed)
    stretch_times(5 * HOUR, 8)

    measured = measured_runs(project)

    assert [run.trained for run in measured] == pytest.approx([5.0] * 3)
    assert sorted(run.lasted for run in measured) == pytest.approx([6, 9, 30])
    assert overheads_of(measured) == pytest.approx([6 * 2 / 8] * 3)
    assert overheads_of([]) == []


def test_the_start_of_another_recipe_tells_how_long_a_start_takes(project, make_run):  # noqa: F811
    ended(make_run, 20, seed=0)
    ended(make_run, 6, seed=1, recipe="tiny-minimax")
    stretch_times(5 * HOUR, 8)

    same, other = pace_of(project, **ASKED), pace_of(project, **ASKED | {"recipe": "tiny-magistral"})

    assert (same.runs, same.same_recipe, other.runs, other.same_recipe) == (1, True, 2, False)
    assert same.overhead.middle == pytest.approx(1.5)
    assert same.steps.middle == pytest.approx(1.0)
    assert pace_of(project, **ASKED | {"task": "math"}) is None


def test_what_is_left_is_at_the_speed_of_the_present_attempt(make_run):  # noqa: F811
    run = make_run(8, budget_hours=16.0)
    assert time_left(run, 8.0, span_of_runs([run.pk])[run.pk]) is None  # all at one moment: no speed
    stretch_times(2 * HOUR, 8)
    span = span_of_runs([run.pk])[run.pk]

    assert (span[0].seq, span[1].seq) == (0, 8)
    assert time_left(run, 8.0, span) == 2 * HOUR
    assert time_left(run, 20.0, span) == timedelta()
    assert time_left(run, None, span) is None
    assert time_left(run, 8.0, None) is None
    run.attempt_number = 2  # which has reported nothing yet
    assert time_left(run, 8.0, span) is None
