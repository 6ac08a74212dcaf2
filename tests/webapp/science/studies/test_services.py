"""Studies are made whole or not at all, once for a key, and change by what people add and take out."""

from dataclasses import replace

import pytest

from tests.webapp.science.studies.conftest import TINY
from webapp.base.errors import Conflict, InvalidInput
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.recipes.services import add_revision
from webapp.record.runs.models import Dispatch, Run
from webapp.science.studies import services
from webapp.science.studies.models import Arm, Study, StudyRun


def test_a_study_launches_every_variant_with_every_seed(make_study):
    study = make_study()

    places = [(p.arm.label, p.run.seed) for p in study.members.select_related("arm", "run")]
    assert places == [
        ("Base", 0), ("DAPO loss", 0), ("no FP32 head", 0), ("Base", 1), ("DAPO loss", 1), ("no FP32 head", 1),
    ]  # fmt: skip
    assert Dispatch.objects.filter(kind="submit").count() == 6
    assert set(Run.objects.values_list("budget_hours", "task", "model")) == {
        (16.0, "arithmetic", "tiny-arithmetic")
    }
    assert study.members.first().run.config["loss"]["type"] == "cispo"


def test_the_papers_variants_are_the_committed_recipes(make_study):
    study = make_study()

    used = [arm.revision.recipe.slug for arm in study.arms.select_related("revision__recipe")]
    assert used == ["tiny-scalerl", "tiny-loo-dapo", "tiny-loo-fp32"]
    assert not Revision.objects.exclude(message="shipped with Headroom").exists()


def test_other_variants_get_recipes_of_their_own_with_a_message(make_study):
    study = make_study(changes=("optimizer.lr=1e-4",))

    revision = study.arms.get(position=1).revision
    assert revision.recipe.slug == "tiny-scalerl-optimizer-lr-1e-4"
    assert revision.config["optimizer"]["lr"] == 1e-4
    assert revision.message == "Study What matters: ScaleRL (tiny) rev 1 with optimizer.lr=1e-4"
    assert study.base.recipe.revisions.count() == 1  # people launch its newest revision by its name
    assert make_study(changes=("optimizer.lr=1e-4",)).arms.get(position=1).revision == revision


def test_a_change_of_a_newer_base_is_a_revision_with_both(make_study, project):
    recipe = project.recipes.get(slug="tiny-scalerl")
    config = recipe.revisions.get().config
    add_revision(recipe=recipe, config=config | {"optimizer": config["optimizer"] | {"lr": 3e-5}})

    revision = make_study(changes=("loss=dapo",)).arms.get(position=1).revision

    assert (revision.config["loss"]["type"], revision.config["optimizer"]["lr"]) == ("dapo", 3e-5)
    assert revision.recipe.slug == "tiny-scalerl-loss-dapo"


def test_the_same_key_is_the_same_study(make_study, user, project):
    first = make_study(key="k1")
    asked = replace(TINY, name="What matters")
    again = services.create_study(asked, user=user, project=project, idempotency_key="k1")

    assert (again.study, again.created) == (first, False)
    assert (Study.objects.count(), Run.objects.count()) == (1, 6)
    with pytest.raises(Conflict) as refused:
        make_study(key="k1", seeds=(5,))
    assert first.pk in refused.value.message


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"changes": ("loss=dapo", "loss=magic")}, "changes.1", "policy loss can be dapo, gspo, grpo"),
        ({"changes": ("optimizer.lr=-1",)}, "changes.0", "optimizer.lr (optimizer.lr=-1) cannot run"),
        ({"changes": ("optimizer.speed=1",)}, "changes.0", "no such field"),
        ({"changes": ("batch=100",)}, "changes.0", "multiple of 16"),
        ({"changes": ("context=10",)}, "changes.0", "above 32"),
        ({"changes": ("context=100000",)}, "changes.0", "cannot run"),
        ({"changes": ("model=nowhere",)}, "changes.0", "no model named"),
        ({"changes": ("seed=3",)}, "changes.0", "seeds are given for all runs"),
        ({"changes": ("loss",)}, "changes.0", "write setting=value"),
        ({"changes": ("a\0b=1",)}, "changes.0", "printable"),
        ({"changes": ("loss=dapo", "loss.type=dapo")}, "changes.1", "the same as DAPO loss"),
        ({"changes": ("loss.type=cispo",)}, "changes.0", "the same as the base"),
        ({"changes": ()}, "changes", "at least one change"),
        ({"seeds": ()}, "seeds", "at least one"),
        ({"seeds": (1, 1)}, "seeds", "once"),
        ({"seeds": (-1,)}, "seeds", "whole numbers"),
        ({"seeds": tuple(range(200))}, "seeds", "at most 500 runs"),
        ({"budget_hours": 0.0}, "budget_hours", "above 0"),
        ({"budget_hours": float("nan")}, "budget_hours", "above 0"),
        ({"budget_hours": 1e99}, "budget_hours", "at most 1,000,000"),
        ({"task": "chess"}, "task", "no task named"),
        ({"model": "nowhere"}, "model", "no model named"),
        ({"recipe": "nothing"}, "recipe", "no recipe nothing"),
        ({"revision": 9}, "revision", "no revision 9"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_stored(make_study, project, changed, field, words):
    recipes = Recipe.objects.count()

    with pytest.raises(InvalidInput) as refused:
        make_study(**changed)

    assert refused.value.field == field
    assert words in refused.value.message
    assert (Study.objects.count(), Arm.objects.count(), Run.objects.count()) == (0, 0, 0)
    assert Recipe.objects.count() == recipes


def test_a_failure_on_the_way_stores_nothing(make_study, monkeypatch):
    def fail(*args, **kwargs):
        raise InvalidInput("model", "gone meanwhile")

    recipes = Recipe.objects.count()
    monkeypatch.setattr(services, "launch_run", fail)

    with pytest.raises(InvalidInput):
        make_study(changes=("optimizer.lr=1e-4",))

    assert (Study.objects.count(), Recipe.objects.count()) == (0, recipes)


def test_further_seeds_launch_what_is_missing(make_study, user):
    study = make_study(seeds=(0,))

    assert services.launch_seeds(study, [0, 1], user=user) == 3
    assert services.launch_seeds(study, [0, 1], user=user) == 0

    study.refresh_from_db()
    assert study.seeds == [0, 1]
    assert study.members.count() == 6
    with pytest.raises(InvalidInput):
        services.launch_seeds(study, [], user=user)


def test_runs_are_added_where_they_belong_and_taken_out(make_study, make_run, project):
    study = make_study(seeds=(0,))
    same, other = make_run(0, recipe="tiny-loo-dapo", seed=7), make_run(0, recipe="tiny-minimax")

    assert services.add_run(study, same).label == "DAPO loss"
    assert services.add_run(study, other).by_hand
    with pytest.raises(Conflict):
        services.add_run(study, same)
    with pytest.raises(InvalidInput):
        services.add_run(study, make_run(0, seed=8), position=99)
    services.remove_run(study, other)
    services.remove_run(study, other)

    assert not study.arms.filter(by_hand=True).exists()
    assert StudyRun.objects.filter(run=same).exists()
    assert Run.objects.filter(pk=other.pk).exists()


def test_a_run_of_another_project_is_not_added(make_study, foreign_run):
    with pytest.raises(InvalidInput):
        services.add_run(make_study(seeds=(0,)), foreign_run)


def test_stopping_all_leaves_what_has_ended(make_study, report, user):
    study = make_study(seeds=(0,))
    report(study.members.first().run, 6, ended="succeeded")

    assert services.stop_all(study, user=user) == 2
    assert services.stop_all(study, user=user) == 0
    assert sorted(Run.objects.values_list("state", flat=True)) == ["cancelled", "cancelled", "succeeded"]


def test_axes_move_what_belongs_together(make_study):
    study = make_study(kind="axis", changes=("batch=128", "batch=512"), seeds=(0,))

    base, small, large = (arm for arm in study.arms.select_related("revision"))
    assert (base.number, small.number, large.number) == (256, 128, 512)
    assert (
        large.revision.config["rollout"] | {"max_in_flight_prompts": 288, "max_untrained_prompts": 288}
        == (large.revision.config["rollout"])
    )
    assert large.revision.config["rollout"]["prompts_per_step"] == 32


def test_generations_keep_the_batch_and_mixtures_train_on_a_task_of_their_own(make_study):
    more = make_study(kind="axis", changes=("generations=24",), seeds=(0,)).arms.get(position=1)
    mixed = make_study(kind="axis", changes=("mixture=arithmetic:1",), seeds=(0,)).arms.get(position=1)

    assert more.revision.config["rollout"]["prompts_per_step"] == 11  # as the committed scalerl-24gen
    assert (mixed.task, mixed.members.get().run.task) == ("mixture", "mixture")


def test_models_are_an_axis_without_a_revision_of_their_own(make_study, headroom_home):
    from tests.fake_model import make_model

    make_model(headroom_home, "small", 4096)

    arm = make_study(kind="axis", changes=("model=small",), seeds=(0,)).arms.get(position=1)

    assert (arm.revision.recipe.slug, arm.members.get().run.model) == ("tiny-scalerl", "small")


def test_the_request_decides_what_is_the_same():
    assert replace(TINY, seeds=(0,)) != TINY
