"""Recipes: revisions never change, the same content is the same revision, shipped files come in once."""

import copy

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction

from training.recipe import content_hash, load_recipe, recipe_names
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.services import create_project
from webapp.record.recipes import selectors, services
from webapp.record.recipes.models import Recipe, Revision

pytestmark = pytest.mark.django_db


@pytest.fixture
def project():
    return create_project(slug="math", name="Math")


@pytest.fixture
def recipe(project):
    return selectors.recipe_by_slug(project, "scalerl")


@pytest.fixture
def config(recipe):
    return copy.deepcopy(recipe.revisions.get().config)


def test_every_shipped_file_is_a_recipe_of_a_new_project(project):
    slugs = set(project.recipes.values_list("slug", flat=True))

    assert slugs == {name.replace("/", "-").replace(".", "-") for name in recipe_names()}
    stored = Revision.objects.get(recipe__project=project, recipe__slug="tiny-scalerl")
    assert stored.content_hash == content_hash(load_recipe("tiny/scalerl"))


def test_syncing_again_changes_nothing(project):
    before = Revision.objects.count()

    assert services.sync_shipped_recipes(project) == 0
    assert Revision.objects.count() == before


def test_syncing_costs_the_same_for_all_files(project, django_assert_num_queries):
    with django_assert_num_queries(5):  # savepoint, recipes, read both, release
        services.sync_shipped_recipes(project)


def test_a_file_that_changed_is_a_new_revision_after_ones_own(project, recipe, config):
    shipped_hash = recipe.revisions.get().content_hash
    Revision.objects.filter(recipe=recipe).delete()
    config["optimizer"]["lr"] = 1e-4
    services.add_revision(recipe=recipe, config=config)

    assert services.sync_shipped_recipes(project) == 1
    newest = recipe.revisions.get(number=2)
    assert (newest.content_hash, newest.message) == (shipped_hash, services.SHIPPED)


@pytest.mark.parametrize(
    "change",
    [{"number": 7}, {"config": {}}, {"content_hash": "0" * 64}, {"message": "better"}],
)
def test_the_database_refuses_to_change_a_revision(recipe, change):
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        recipe.revisions.update(**change)


def test_a_deleted_author_is_forgotten_and_the_revision_stays(recipe, config):
    user = get_user_model().objects.create_user("ada")
    config["optimizer"]["lr"] = 1e-4
    revision, _ = services.add_revision(recipe=recipe, config=config, user=user)

    user.delete()

    revision.refresh_from_db()
    assert revision.created_by is None
    other = get_user_model().objects.create_user("grace")
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        Revision.objects.filter(pk=revision.pk).update(created_by=other)


def test_the_same_content_is_the_same_revision_whatever_the_order_of_keys(recipe, config):
    first = recipe.revisions.get()

    again, _ = services.add_revision(recipe=recipe, config=dict(reversed(config.items())), message="again")

    assert again.pk == first.pk


def test_numbers_count_up(recipe, config):
    numbers = []
    for lr in (1e-4, 2e-4, 3e-4):
        config["optimizer"]["lr"] = lr
        numbers.append(services.add_revision(recipe=recipe, config=config)[0].number)

    assert numbers == [2, 3, 4]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"loss": {"type": "magic"}}, "config.loss.type"),
        ({"colour": "red"}, "config.colour"),
        ({"name": None}, "config.name"),
    ],
)
def test_configurations_that_are_no_recipe_are_refused_by_field(recipe, config, change, field):
    with pytest.raises(InvalidInput) as caught:
        services.add_revision(recipe=recipe, config=config | change)

    assert caught.value.field == field
    assert recipe.revisions.count() == 1


@pytest.mark.parametrize("slug", ["", "A", "a b", "-a", "a-", "x" * 81, "ä"])
def test_unusable_slugs_are_refused(project, config, slug):
    with pytest.raises(InvalidInput) as caught:
        services.create_recipe(project=project, slug=slug, name="Mine", config=config)

    assert caught.value.field == "slug"
    assert not Recipe.objects.filter(name="Mine").exists()


def test_the_list_says_newest_revision_and_runs_in_one_query(project, django_assert_num_queries):
    with django_assert_num_queries(1):
        recipes = list(selectors.recipes_of(project))

    assert {recipe.latest_number for recipe in recipes} == {1}
    assert {recipe.run_count for recipe in recipes} == {0}


def test_find_revision_by_number_or_newest(project, recipe, config):
    config["optimizer"]["lr"] = 1e-4
    services.add_revision(recipe=recipe, config=config)

    assert selectors.find_revision(project, "scalerl", None).number == 2
    assert selectors.find_revision(project, "scalerl", 1).number == 1
    assert selectors.find_revision(project, "scalerl", 3) is None
