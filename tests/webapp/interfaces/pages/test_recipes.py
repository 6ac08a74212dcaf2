"""Recipes and the form of a new revision."""

import re

import pytest
import yaml

from tests.webapp.interfaces.pages.reading import text_of
from webapp.interfaces.pages.configuration import as_yaml
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.recipes.services import create_recipe, shipped_slugs


@pytest.fixture
def recipe(project):
    return Recipe.objects.get(project=project, slug="tiny-scalerl")


@pytest.fixture
def config(recipe):
    return recipe.revisions.get().config


def send(ada, recipe, config, message="smaller groups"):
    text = config if isinstance(config, str) else yaml.safe_dump(config)
    return ada.post(f"/recipes/{recipe.slug}/new", {"config": text, "message": message})


def test_the_list_has_every_recipe_of_the_project(ada, project):
    page = ada.get("/recipes").content.decode()

    for slug in project.recipes.values_list("slug", flat=True):
        assert f'href="/recipes/{slug}"' in page


def test_a_recipe_shows_its_settings_and_runs(ada, recipe, make_run):
    run = make_run(0, name="first try")

    page = ada.get(f"/recipes/{recipe.slug}").content.decode()

    assert recipe.revisions.get().content_hash in page
    assert "CISPO" in page
    assert f'href="/runs/{run.pk}"' in page


def test_a_recipe_of_another_project_does_not_exist(ada, recipe):
    from webapp.identity.accounts.services import create_project

    recipe.project = create_project(slug="secret", name="Secret")
    recipe.slug = "hidden"
    recipe.save()

    assert ada.get("/recipes/hidden").status_code == 404
    assert ada.get("/recipes/hidden/new").status_code == 404


def test_a_new_revision_is_stored_and_its_differences_shown(ada, recipe, config):
    config["rollout"]["generations_per_prompt"] = 4

    response = send(ada, recipe, config)

    assert response.url == f"/recipes/{recipe.slug}#rev-2"
    page = ada.get(f"/recipes/{recipe.slug}").content.decode()
    assert "smaller groups" in page
    assert '<td>rollout.generations_per_prompt</td><td class="was">16</td><td class="now">4</td>' in page


def test_the_text_that_the_form_starts_with_says_the_same(ada, recipe, config):
    response = send(ada, recipe, as_yaml(config))

    assert response.status_code == 302
    assert "Nothing new" in ada.get(response.url).content.decode()
    assert recipe.revisions.count() == 1


ODD_YAML = [
    "a: 2001-99-99",
    "a: 2001-12-14t21:59:43.10-25:00",
    "a: " + "[" * 5000,
    "a: " + "9" * 5000,
    "a: &b [*b]",
    "a: " + "x" * 100_001,
    "a: {" + "b: {" * 300,
    "a: !!timestamp x",
    "a: !!bool x",
]


def wrong(config, path, value):
    *parents, leaf = path.split(".")
    target = config
    for parent in parents:
        target = target[parent]
    target[leaf] = value
    return config


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("optimizer.lr", -1, "config.optimizer.lr"),
        ("loss.type", "cisop", "config.loss.type"),
        ("learning_rate", 1e-4, "config.learning_rate: no such field"),
    ],
)
def test_a_wrong_setting_is_named_beside_the_text(ada, recipe, config, path, value, words):
    response = send(ada, recipe, wrong(config, path, value))

    page = response.content.decode()
    assert response.status_code == 422
    assert 'id="id_config_error"' in page
    assert words in page
    assert Revision.objects.filter(recipe=recipe).count() == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "The configuration ") for text in ODD_YAML),
        ("a: [1,\nb: 2", "The configuration is not YAML in line 2"),
        ("just words", "a mapping of settings"),
        ("", "required"),
    ],
)
def test_what_is_no_configuration_is_said(ada, recipe, text, words):
    response = send(ada, recipe, text)

    assert response.status_code == 422
    assert words in response.content.decode()


@pytest.fixture
def odd(config):
    """A configuration with a KL penalty that does nothing."""
    config["loss"] |= {"kl_coef": 0.5, "kl_estimate": "k1"}
    config["model"] = "not-here-yet"  # of unknown size
    return config


def test_hints_stand_on_the_recipe_and_on_the_form_and_refuse_nothing(ada, recipe, odd):
    assert "<dt" not in ada.get(f"/recipes/{recipe.slug}").content.decode()

    assert send(ada, recipe, odd).status_code == 302

    for path in (f"/recipes/{recipe.slug}", f"/recipes/{recipe.slug}/new"):
        page = ada.get(path).content.decode()
        assert '<dt class="mono">loss.kl_estimate</dt>' in page
        assert "As a loss k1 has a mean gradient of 0" in page


def test_a_form_that_is_too_large_is_answered_with_a_page_of_ours(ada, recipe):
    answer = ada.post(f"/recipes/{recipe.slug}/new/hints", {"config": "a" * 3_000_000})

    assert answer.status_code == 400 and "larger than a form may be" in answer.content.decode()


def test_hints_follow_the_text_that_is_written(ada, recipe, odd):
    ask = lambda text: ada.post(f"/recipes/{recipe.slug}/new/hints", {"config": text}).content.decode()

    assert "loss.kl_coef" in ask(yaml.safe_dump(odd))
    for unfinished in ("", "loss: [", "loss: 3", *ODD_YAML, yaml.safe_dump(odd | {"no_such_field": 1})):
        assert "<dt" not in ask(unfinished)
    assert recipe.revisions.count() == 1
    assert ada.post("/recipes/no-such-recipe/new/hints", {"config": ""}).status_code == 404


HTMX = {"HX-Request": "true"}


def test_the_list_is_searched_and_htmx_gets_the_table_alone(ada):
    answer = ada.get("/recipes", {"q": "TINY grpo"}, headers=HTMX).content.decode()

    assert 'href="/recipes/tiny-deepseek-grpo"' in answer
    assert 'href="/recipes/scalerl"' not in answer
    assert "<html" not in answer
    assert "No recipe fits" in ada.get("/recipes", {"q": "xyzzy"}).content.decode()


def test_the_list_has_use_and_the_ceiling_with_its_interval(ada, make_run):
    make_run(30, a=0.6)
    make_run(0, seed=1)

    page = text_of(ada.get("/recipes"))

    assert '<a href="/runs?filter=recipe:tiny-scalerl,scalerl">2</a>' in page
    assert "rev 1 on arithmetic, 1 seed" in page
    assert 'aria-label="ceiling 0.' in page


def test_a_ceiling_that_is_not_known_is_no_point(ada, make_run):
    make_run(8, to=0.5)

    for path in ("/recipes", "/recipes/tiny-scalerl"):
        page = ada.get(path).content.decode()
        assert "not known yet" in page
        assert 'class="dot"' not in page


def test_a_recipe_is_one_row_in_its_group_with_its_sizes(ada, project):
    page = text_of(ada.get("/recipes", headers=HTMX))

    groups = re.findall(r'<th scope="rowgroup"[^>]*>([^<]+)</th>', page)
    assert groups == ["ScaleRL", "Prevalent", "Leave-one-out", "One axis of ScaleRL", "Other models and machines",
                      "Other practice"]  # fmt: skip
    assert page.count("<td><a ") == len({slug.removeprefix("tiny-") for slug in shipped_slugs()})
    assert '<a href="/recipes/tiny-scalerl">2 cores</a> · <a href="/recipes/scalerl">as published</a>' in page


def test_the_best_evidence_stands_first_in_its_group(ada, make_run):
    names = lambda: re.findall(r"<strong>([^<]+)</strong></a> <span", text_of(ada.get("/recipes")))
    assert names().index("DeepSeek GRPO") < names().index("MiniMax")

    make_run(30, recipe="tiny-minimax")

    assert names().index("MiniMax") < names().index("DeepSeek GRPO")


def test_a_recipe_of_ones_own_stands_above_those_that_came(ada, project, config):
    create_recipe(project=project, slug="ours", name="Ours", config=config)

    page = ada.get("/recipes").content.decode()

    assert (
        page.index("Of this project")
        < page.index("/recipes/ours")
        < page.index('rowgroup" colspan="4">ScaleRL<')
    )


def test_a_recipe_says_what_it_reached(ada, make_run):
    make_run(30, a=0.6)

    page = ada.get("/recipes/tiny-scalerl").content.decode()

    assert "What it reached" in page
    assert "rev 1 on arithmetic, tiny-arithmetic, 1 seed" in page


def test_the_lists_queries_do_not_grow(ada, make_run, django_assert_max_num_queries):
    for seed in range(3):
        make_run(6, seed=seed)
    with django_assert_max_num_queries(15):
        ada.get("/recipes")
