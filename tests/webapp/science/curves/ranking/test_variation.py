"""Forecasts on an axis, and how far the seeds of a project's recipes differ."""

import numpy as np
import pytest

from scaling.seeds import CORPUS
from tests.webapp.science.curves.ranking.test_standing import flat
from webapp.science.curves import services
from webapp.science.curves.ranking.variation import courses_of, seeds_of_tasks


def test_a_forecast_on_another_axis_is_the_same_forecast() -> None:
    hours = flat(0.7, seen=8.0)
    tokens = hours.on_axis(1e-6)

    assert tokens.seen == pytest.approx(8e6)
    assert tokens.at(np.array([4e6]))[1] == pytest.approx(hours.at(np.array([4.0]))[1])
    assert (tokens.ceiling, tokens.interval, tokens.level, tokens.message) == (
        hours.ceiling, hours.interval, hours.level, hours.message,
    )  # fmt: skip


def test_seeds_of_a_task_are_those_of_its_recipes_with_several_runs(project, make_run):
    assert seeds_of_tasks(project)["math"] == CORPUS

    for seed, a in enumerate((0.55, 0.60, 0.65)):
        services.refit(make_run(a=a, seed=seed).pk)
    services.refit(make_run(a=0.3, seed=9, revision=None, name="alone").pk)

    found = seeds_of_tasks(project)["math"]
    assert found.dof == CORPUS.dof + 2 and 0.02 < found.sd < 0.05
    assert seeds_of_tasks(project)["another task"] == CORPUS
    assert seeds_of_tasks(project, "tokens")["math"].sd == pytest.approx(found.sd, rel=1e-3)


def test_a_run_whose_axis_is_not_known_has_no_forecast_there(project, make_run):
    run = make_run(n=12)
    services.refit(run.pk)
    run.series.get(metric="eval/pass_rate").points.update(flops=None)

    assert courses_of(project, [run.pk], "device_hours")[run.pk] is not None
    assert courses_of(project, [run.pk], "flops")[run.pk] is None
