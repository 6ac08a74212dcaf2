"""Several seeds at once, of a revision or of what becomes one: all or none."""

import pytest

from webapp.errors import Conflict, InvalidInput
from webapp.recipes.models import Revision
from webapp.runs.launch_seeds import launch_seeds
from webapp.runs.models import Dispatch, Run
from webapp.runs.pace import devices_of, pace_of


@pytest.fixture
def request_of(project, user, model_folder):
    revision = Revision.objects.select_related("recipe").get(
        recipe__slug="tiny-scalerl", recipe__project=project
    )
    return {
        "user": user, "project": project, "revision": revision, "config": None, "message": "", "task": "arithmetic",
        "model": "tiny-arithmetic", "seeds": [0, 1], "budget_hours": 0.5, "idempotency_key": "k",
    }  # fmt: skip


def changed(request_of, lr):
    config = request_of["revision"].config
    return request_of | {
        "config": config | {"optimizer": config["optimizer"] | {"lr": lr}},
        "message": "faster",
    }


def test_each_seed_is_a_run_of_the_new_revision(request_of):
    launched = launch_seeds(**changed(request_of, 1e-3))

    assert [made.run.seed for made in launched] == [0, 1]
    assert {made.run.revision.number for made in launched} == {2}
    assert launched[0].run.revision.message == "faster"
    assert Dispatch.objects.count() == 2


def test_again_is_the_same(request_of):
    first, second = launch_seeds(**changed(request_of, 1e-3)), launch_seeds(**changed(request_of, 1e-3))

    assert [made.run for made in first] == [made.run for made in second]
    assert not any(made.created for made in second)
    assert Revision.objects.filter(recipe=request_of["revision"].recipe).count() == 2


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
def test_where_one_is_wrong_nothing_is_stored(request_of, change, error):
    with pytest.raises(error):
        launch_seeds(**changed(request_of, 1e-3) | change)

    assert not Run.objects.exists()
    assert Revision.objects.filter(recipe=request_of["revision"].recipe).count() == 1


def test_a_key_that_was_used_for_other_seeds_is_refused_and_leaves_no_revision(request_of):
    launch_seeds(**request_of)

    with pytest.raises(Conflict):
        launch_seeds(**changed(request_of, 1e-3) | {"seeds": [5]})

    assert Revision.objects.filter(recipe=request_of["revision"].recipe).count() == 1
    assert Run.objects.count() == 2


def test_nothing_measured_is_no_pace(project):
    assert pace_of(project, recipe="tiny-scalerl", task="arithmetic", model="tiny-arithmetic") is None


@pytest.mark.parametrize("resources", [None, {}, {"generator_gpus": "x"}, 3])
def test_devices_of_what_is_no_section(resources):
    assert devices_of(resources) == (2 if resources == {} else 0)
