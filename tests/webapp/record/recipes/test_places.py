"""Which models a launch may name: by name, by id of the hub, by a path below the model roots, and nothing else."""

import pytest

from tests.fake_model import make_model
from training.models import ModelError, find_model
from training.recipe import RecipeError
from webapp.record.recipes.selectors import parameters_of
from webapp.record.recipes.services import check_model_place


def refused(model):
    with pytest.raises(RecipeError) as caught:
        check_model_place(str(model))
    assert caught.value.field == "model"
    return caught.value.reason.replace(str(model), "MODEL")


def test_names_ids_and_paths_below_the_roots_pass(headroom_home, settings, tmp_path):
    settings.MODEL_ROOTS = [str(tmp_path / "shared")]
    for model in (
        "tiny-arithmetic",
        "org/name",
        "org/name@v2",
        headroom_home / "models" / "a",
        tmp_path / "shared" / "b",
    ):
        check_model_place(str(model))


def test_what_is_there_and_what_is_not_are_refused_alike(headroom_home, tmp_path):
    make_model(tmp_path, "outside", 4096)
    (headroom_home / "models").mkdir(exist_ok=True)
    (headroom_home / "models" / "link").unlink(missing_ok=True)
    (headroom_home / "models" / "link").symlink_to(tmp_path / "models")
    odd = [
        "/etc", "/not/there", "/", "./webapp", "../main", tmp_path / "models" / "outside", "a/../../b", "a\0/b",
        headroom_home / "models" / "link" / "outside", headroom_home / "models", "webapp/record/recipes",
    ]  # fmt: skip

    answers = {refused(model).replace(repr(str(odd[7])), "'MODEL'") for model in odd}

    assert len(answers) == 1


@pytest.mark.parametrize("has_models", [True, False])
def test_a_path_with_nothing_below_the_roots_is_answered_alike(settings, tmp_path, has_models):
    settings.HEADROOM_HOME = str(tmp_path)
    if has_models:
        make_model(tmp_path, "here", 4096)
    missing = str(tmp_path / "models" / "nothing")

    with pytest.raises(ModelError) as caught:
        find_model(missing, tmp_path)

    assert str(caught.value).replace(missing, "MODEL") == refused("/etc")


def test_the_folder_where_the_server_runs_is_no_matter(headroom_home, monkeypatch):
    model = make_model(headroom_home, "here", 4096)
    monkeypatch.chdir(headroom_home)
    assert parameters_of(str(model)) is not None

    check_model_place("models/here")  # an id of the hub
    assert parameters_of("models/here") is None
    refused("./models/here")


def test_nothing_is_counted_outside(tmp_path):
    assert parameters_of(str(make_model(tmp_path, "outside", 4096))) is None
