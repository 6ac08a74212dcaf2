"""Recipes and revisions over HTTP."""

import copy

import pytest

from webapp.record.recipes.models import Recipe, Revision


@pytest.fixture
def config(project):
    return copy.deepcopy(Revision.objects.get(recipe__project=project, recipe__slug="scalerl").config)


def test_the_shipped_recipes_are_listed(reader):
    slugs = [item["slug"] for item in reader.get("recipes", limit=500).json()["items"]]

    assert {"scalerl", "tiny-scalerl", "tiny-deepseek-grpo"} <= set(slugs)
    assert slugs == sorted(slugs)


def test_revisions_newest_first_with_configuration(reader, launcher, config):
    config["optimizer"]["lr"] = 1e-4
    added = launcher.post("recipes/scalerl/revisions", {"config": config, "message": "higher lr"})

    numbers = [item["number"] for item in reader.get("recipes/scalerl/revisions").json()["items"]]
    newest = reader.get("recipes/scalerl/revisions", limit=1).json()["items"][0]

    assert added.status_code == 201
    assert numbers == [2, 1]
    assert (newest["config"]["optimizer"]["lr"], newest["message"], newest["created_by"]) == (
        1e-4,
        "higher lr",
        "ada",
    )


def test_the_same_content_is_the_same_revision(launcher, config):
    again = launcher.post("recipes/scalerl/revisions", {"config": config})

    assert (again.status_code, again.json()["number"]) == (200, 1)
    assert Revision.objects.filter(recipe__slug="scalerl", recipe__project__slug="math").count() == 1


def test_create_a_recipe(launcher, config):
    response = launcher.post("recipes", {"slug": "mine", "name": "Mine", "config": config})

    assert response.status_code == 201
    assert response.json()["latest_revision"] == 1


def test_bad_recipes_name_the_field_and_leave_nothing(launcher, config, problem):
    before = Recipe.objects.count()
    config["optimizer"]["lr"] = -1

    bad_value = problem(launcher.post("recipes", {"slug": "mine", "name": "Mine", "config": config}))
    bad_slug = problem(launcher.post("recipes", {"slug": "My recipe", "name": "Mine", "config": config}))
    no_config = problem(launcher.post("recipes", {"slug": "mine", "name": "Mine", "config": {}}))

    assert bad_value[:3] == (422, "invalid_input", "config.optimizer.lr")
    assert bad_slug[:3] == (422, "invalid_input", "slug")
    assert no_config[:3] == (422, "invalid_input", "config.name")
    assert Recipe.objects.count() == before


def test_a_taken_slug_is_a_conflict(launcher, config, problem):
    response = launcher.post("recipes", {"slug": "scalerl", "name": "Mine", "config": config})

    assert problem(response)[:3] == (409, "conflict", "slug")


def test_unknown_recipes_and_scopes(reader, writer, config, problem):
    assert problem(reader.get("recipes/nothing"))[0] == 404
    assert problem(reader.get("recipes/nothing/revisions"))[0] == 404
    assert problem(writer.post("recipes/scalerl/revisions", {"config": config}))[0] == 403


def test_recipes_of_others_do_not_exist(stranger, launcher, config, problem):
    launcher.post("recipes", {"slug": "mine", "name": "Mine", "config": config})

    assert problem(stranger.get("recipes/mine"))[0] == 404


def test_the_list_costs_two_queries(reader, django_assert_num_queries):
    reader.get("recipes")  # the token's use is noted once a minute

    with django_assert_num_queries(2):
        reader.get("recipes")


def test_a_new_revision_is_answered_with_hints(launcher, config):
    assert launcher.post("recipes/scalerl/revisions", {"config": config}).json()["hints"] == []

    config["loss"] |= {"kl_coef": 0.5}
    config["model"] = "not-on-this-machine"
    answer = launcher.post("recipes/scalerl/revisions", {"config": config})

    assert answer.status_code == 201
    found = {hint["field"]: hint["message"] for hint in answer.json()["hints"]}
    assert "Above 0.2 it keeps the policy from learning" in found["loss.kl_coef"]
