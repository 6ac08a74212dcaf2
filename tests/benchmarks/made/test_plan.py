"""The plan of made runs: sizes that add up, states, and seeds of the same recipe around one ceiling."""

from statistics import fmean

import pytest

from benchmarks.made.plan import STATES, plan_runs
from webapp.record.runs.models import State


def test_values_come_to_about_the_points_asked_for():
    planned = plan_runs(500, 2_000_000, 12)

    assert len(planned) == 500
    assert sum(made.values for made in planned) == pytest.approx(2_000_000, rel=0.03)


def test_all_states_recipes_and_tasks_occur():
    planned = plan_runs(1000, 4_000_000, 12)

    assert {made.state for made in planned} == set(STATES)
    assert {made.recipe for made in planned} == set(range(12))
    assert len({(made.task, made.model) for made in planned}) == 12
    assert any(made.resumed_from for made in planned)
    assert max(made.steps for made in planned) > 5 * fmean(made.steps for made in planned)
    assert all(made.tracked for made in planned if made.state == State.RUNNING)


def test_seeds_of_a_recipe_share_its_ceiling():
    planned = plan_runs(1000, 4_000_000, 4)
    groups: dict[tuple, list[float]] = {}
    for made in planned:
        groups.setdefault((made.recipe, made.task, made.model), []).append(made.a)

    assert all(max(a) - min(a) < 0.06 for a in groups.values())
    assert len({made.seed for made in planned}) > 10


def test_the_same_seed_plans_the_same():
    assert plan_runs(50, 100_000, 3, seed=4) == plan_runs(50, 100_000, 3, seed=4)
    assert plan_runs(50, 100_000, 3, seed=4) != plan_runs(50, 100_000, 3, seed=5)


def test_too_few_points_are_refused_with_the_least_number():
    with pytest.raises(ValueError, match="too few for 100 runs: at least 70,000"):
        plan_runs(100, 10_000, 3)
