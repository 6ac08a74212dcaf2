"""Several seeds at once, of a revision or of what becomes one: all or none."""

import pytest

from webapp.base.errors import Conflict, InvalidInput
from webapp.record.recipes.models import Revision
from webapp.record.runs.launch import LaunchRequest
from webapp.record.runs.launch_set import launch_seeds
from webapp.record.runs.models import Dispatch, Run
from webapp.record.runs.pace import devices_of, pace_of


@pytest.fixture
def revision(project, user, model_folder):
    found = Revision.objects.select_related("recipe")
    return found.get(recipe__slug="tiny-scalerl", recipe__project=project)


@pytest.fixture
def launch_them(project, user, revision):
    """launch_them(seeds, lr=..., model=...): two seeds of the recipe with another learning rate, or as it is."""

    def go(seeds=(0, 1), *, lr=None, config=None, model="tiny-arithmetic"):
        if lr is not None:
            config = revision.config | {"optimizer": revision.config["optimizer"] | {"lr": lr}}
        request = LaunchRequest(
            recipe="tiny-scalerl", revision=revision.number, task="arithmetic", model=model, seed=0, budget_hours=0.5
        )  # fmt: skip
        return launch_seeds(
            request, seeds, user=user, project=project, config=config, message="faster", idempotency_key="k"
        )

    return go


def test_each_seed_is_a_run_of_the_new_revision(launch_them):
    launched = launch_them(lr=1e-3)

    assert [made.run.seed for made in launched] == [0, 1]
    assert {made.run.revision.number for made in launched} == {2}
    assert launched[0].run.revision.message == "faster"
    assert Dispatch.objects.count() == 2


def test_again_is_the_same(launch_them, revision):
    first, second = launch_them(lr=1e-3), launch_them(lr=1e-3)

    assert [made.run for made in first] == [made.run for made in second]
    assert not any(made.created for made in second)
    assert Revision.objects.filter(recipe=revision.recipe).count() == 2


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"seeds": []}, InvalidInput),
        ({"seeds": [1, 1]}, InvalidInput),
        ({"seeds": [0, 1, 2, 3, 4]}, InvalidInput),
        ({"seeds": [0, -1]}, InvalidInput),
        ({"model": "no-such-model"}, InvalidInput),
        ({"config": {"name": "x"}}, InvalidInput),
    ],
)
def test_where_one_is_wrong_nothing_is_stored(launch_them, revision, change, error):
    with pytest.raises(error):
        launch_them(**{"lr": None if "config" in change else 1e-3} | change)

    assert not Run.objects.exists()
    assert Revision.objects.filter(recipe=revision.recipe).count() == 1


def test_a_key_that_was_used_for_other_seeds_is_refused_and_leaves_no_revision(launch_them, revision):
    launch_them()

    with pytest.raises(Conflict):
        launch_them([5], lr=1e-3)

    assert Revision.objects.filter(recipe=revision.recipe).count() == 1
    assert Run.objects.count() == 2


def test_nothing_measured_is_no_pace(project):
    assert pace_of(project, recipe="tiny-scalerl", task="arithmetic", model="tiny-arithmetic") is None


@pytest.mark.parametrize("resources", [None, {}, {"generator_gpus": "x"}, 3])
def test_devices_of_what_is_no_section(resources):
    assert devices_of(resources) == (2 if resources == {} else 0)
