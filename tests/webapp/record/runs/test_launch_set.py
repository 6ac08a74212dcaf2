from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from webapp.base.errors import Conflict, InvalidInput
from webapp.record.runs.launch_set import RunSet, launch_set, leave_one_out
from webapp.record.runs.models import Dispatch, Run


def launched_set(*, user, project, **said):
    return launch_set(RunSet(**said), user=user, project=project)


@pytest.fixture
def body(project, user, model_folder):
    return {
        "user": user,
        "project": project,
        "recipes": ["tiny-scalerl", "tiny-loo-dapo"],
        "seeds": [0, 1],
        "label": "ablation",
    }


def test_leave_one_out_is_scalerl_and_the_papers_names():
    names = ["8op", "batch", "dapo", "fp32", "lp", "npr", "plan", "savg"]

    assert leave_one_out() == [*(f"loo-{name}" for name in names), "scalerl"]
    assert leave_one_out("tiny") == [*(f"tiny-loo-{name}" for name in names), "tiny-scalerl"]


def test_each_recipe_with_each_seed_by_the_recipes_own_settings(body):
    launched = launched_set(**body)

    assert [(made.run.revision.recipe.slug, made.run.seed) for made in launched] == [
        ("tiny-scalerl", 0), ("tiny-loo-dapo", 0), ("tiny-scalerl", 1), ("tiny-loo-dapo", 1),
    ]  # fmt: skip
    run = launched[0].run
    own = run.revision.config
    assert (run.task, run.model) == (own["task"]["name"], own["model"])
    assert run.budget_hours == own["budget"]["device_hours"]
    assert Dispatch.objects.count() == 4


def test_again_launches_what_is_missing_alone(body):
    first = launched_set(**body)
    again = launched_set(**body | {"seeds": [0, 1, 2]})

    assert [made.created for made in again] == [False] * 4 + [True] * 2
    assert [made.run for made in again[:4]] == [made.run for made in first]
    assert launched_set(**body | {"label": "another"})[0].created


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"recipes": []}, "recipes"),
        ({"recipes": ["tiny-scalerl", "nothing"]}, "recipes"),
        ({"recipes": ["tiny-scalerl"] * 2}, "recipes"),
        ({"seeds": [1, 1]}, "seeds"),
        ({"seeds": list(range(300))}, "seeds"),
        ({"seeds": [0, -1]}, "seed"),
        ({"label": ""}, "label"),
        ({"budget_hours": 0.0}, "budget_hours"),
        ({"model": "none"}, "model"),
    ],
)
def test_wrong_sets_launch_nothing(body, change, field):
    with pytest.raises(InvalidInput) as caught:
        launched_set(**body | change)

    assert caught.value.field == field
    assert not Run.objects.exists()


def test_a_label_with_other_settings_is_a_conflict(body):
    launched_set(**body)

    with pytest.raises(Conflict):
        launched_set(**body | {"budget_hours": 0.25})


def test_command(body, project):
    out = StringIO()
    options = {"leave_one_out": True, "size": "tiny", "seeds": [0, 1], "project": project.slug, "user": "ada"}
    call_command("launch_recipes", stdout=out, **options)

    assert len(out.getvalue().splitlines()) == Run.objects.count() == 18
    call_command("launch_recipes", stdout=out, **options)
    assert out.getvalue().count("(launched before)") == 18


@pytest.mark.parametrize(
    ("options", "reason"),
    [({}, "at least one"), ({"user": "nobody"}, "no user"), ({"project": "none"}, "no project")],
)
def test_command_says_what_is_wrong(body, project, options, reason):
    with pytest.raises(CommandError, match=reason):
        call_command("launch_recipes", **{"project": project.slug, **options})
