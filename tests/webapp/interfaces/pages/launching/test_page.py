"""The launch form: where it starts, what is wrong in it, and what a launch makes of it."""

import json
import re
import shutil

import pytest

from tests.webapp.interfaces.pages.launching.forms import error_of
from tests.webapp.interfaces.pages.reading import text_of
from webapp.record.recipes.services import add_revision
from webapp.record.runs.models import Dispatch, Run

HTMX = {"HX-Request": "true"}
NAMES = ["s.optimizer.lr", "task_options", "seed", "recipe", "change", "yaml", "message", "name"]


def test_the_form_starts_with_the_recipes_own_values(ada):
    page = ada.get("/runs/new", {"recipe": "tiny-deepseek-grpo"}).content.decode()

    assert '<option value="tiny-deepseek-grpo" selected>' in page
    assert 'name="budget_hours" value="0.075"' in page
    assert "GRPO" in page
    assert "one device-hour is 30 minutes of training" in page


def test_a_preset_is_what_came_with_headroom_whatever_was_launched_from_it_since(ada, project):
    recipe = project.recipes.get(slug="tiny-scalerl")
    shipped = recipe.revisions.get()
    variant = shipped.config | {"optimizer": shipped.config["optimizer"] | {"lr": 1.0}}
    add_revision(recipe=recipe, config=variant, message="optimizer.lr 8e-5 → 1")

    def revision(query):
        page = ada.get("/runs/new", query).content.decode()
        assert "/runs/new?recipe=tiny-scalerl&amp;revision=1" in page
        return int(re.search(r'<option value="(\d+)" selected>rev', page)[1])

    assert revision({}) == 1
    assert revision({"recipe": "tiny-scalerl", "revision": "1"}) == 1
    assert revision({"recipe": "tiny-scalerl"}) == 2


def test_another_recipe_brings_its_form_and_keeps_name_and_seed(ada):
    query = {"recipe": "tiny-minimax", "revision": "1", "seed": "7", "name": "mine"}

    fragment = ada.get("/runs/new", query, headers=HTMX | {"HX-Trigger-Name": "recipe"}).content.decode()

    assert "<html" not in fragment
    assert '<option value="tiny-minimax" selected>' in fragment
    assert 'name="seed" value="7"' in fragment
    assert 'value="mine"' in fragment


def test_launching_leads_to_the_run(ada, launch_form):
    response = ada.post("/runs/new", launch_form)

    run = Run.objects.get()
    assert response.status_code == 302
    assert response.url == f"/runs/{run.pk}"
    assert (run.seed, run.budget_hours, run.state) == (3, 0.5, "queued")
    assert Dispatch.objects.filter(run=run, kind="submit").exists()


def test_a_double_click_launches_once(ada, launch_form):
    first, second = ada.post("/runs/new", launch_form), ada.post("/runs/new", launch_form)

    assert first.url == second.url
    assert Run.objects.count() == 1


def test_a_form_sent_again_with_other_values_gets_a_new_key(ada, launch_form):
    ada.post("/runs/new", launch_form)

    again = ada.post("/runs/new", launch_form | {"seed": "4"})

    assert again.status_code == 422
    page = again.content.decode()
    assert "was sent before with other values" in page
    key = re.search(r'name="idempotency_key" value="([^"]+)"', page)[1]
    assert key != launch_form["idempotency_key"]
    assert ada.post("/runs/new", launch_form | {"seed": "4", "idempotency_key": key}).status_code == 302


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("budget_hours", "0", "greater than 0"),
        ("budget_hours", "nan", "number"),
        ("budget_hours", "", "required"),
        ("seed", "-1", "0 to 2147483647"),
        ("seed", "two", "whole number"),
        ("model", "no-such-model", "No model named"),
        ("task", "chess", "not one of the available choices"),
        ("revision", "99", "not one of the available choices"),
        ("recipe", "no-such-recipe", "not one of the available choices"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(ada, launch_form, field, value, words):
    response = ada.post("/runs/new", launch_form | {field: value})

    assert response.status_code == 422
    assert words in error_of(response, field)
    assert not Run.objects.exists()
    assert 'aria-invalid="true"' in response.content.decode()


def test_what_was_typed_stays(ada, launch_form):
    page = ada.post("/runs/new", launch_form | {"budget_hours": "0", "name": "mine"}).content.decode()

    assert 'name="seed" value="3"' in page
    assert 'value="mine"' in page


def test_without_recipes_it_says_how_to_get_some(ada, project):
    project.recipes.all().delete()

    page = ada.get("/runs/new").content.decode()

    assert "No recipe to launch" in page
    assert "make up" in page


@pytest.fixture
def odd_recipe(project):
    """The newest revision of the tiny default, with PPO epochs and a learning rate that fits no large model."""
    recipe = project.recipes.get(slug="tiny-scalerl")
    config = recipe.revisions.get().config
    config["loss"] |= {"epochs": 4}
    config["optimizer"] |= {"lr": 1e-4}
    config["model"] = "not-here-yet"
    return add_revision(recipe=recipe, config=config)[0]


def make_weights(folder, parameters):
    """As far as a count looks at them: a header that names one tensor, with no data."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [parameters], "data_offsets": [0, 0]}}).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)


def test_hints_are_for_the_chosen_model(ada, odd_recipe, headroom_home):
    make_weights(headroom_home / "models" / "small-3b", 3 * 10**9)
    make_weights(headroom_home / "models" / "mini", 10**6)
    form = {"recipe": "tiny-scalerl", "task": "arithmetic", "seed": "0", "budget_hours": "1"}
    ask = lambda model: ada.post("/runs/new/check", form | {"model": model}).content.decode()

    assert "recommended for models of 1B to 7B parameters" in ask("small-3b")
    assert "<dt" not in ask("mini")
    assert "models of 1B parameters and more" in ask("not-here-yet")
    for name in ("small-3b", "mini"):
        shutil.rmtree(headroom_home / "models" / name)


def test_the_form_starts_with_the_hints_of_its_own_model(ada, odd_recipe):
    page = ada.get("/runs/new", {"recipe": "tiny-scalerl"}).content.decode()

    assert '<dt class="mono">optimizer.lr</dt>' in page
    assert 'hx-post="/runs/new/check"' in page


def test_the_form_starts_with_what_is_wrong_beside_its_field(ada, odd_recipe):
    response = ada.get("/runs/new", {"recipe": "tiny-scalerl"})

    assert "No model named &#x27;not-here-yet&#x27;" in error_of(response, "model")
    assert response.status_code == 200


def test_several_seeds_are_several_runs(ada, launch_form):
    response = ada.post("/runs/new", launch_form | {"seed": "0, 1 2"})

    assert response.url == "/runs"
    assert sorted(Run.objects.values_list("seed", flat=True)) == [0, 1, 2]
    page = ada.get("/runs").content.decode()
    assert 'Launched 3 runs: <a class="link" href="/runs/' in page


@pytest.mark.parametrize("seeds", ["1, 1", "1 2 3 4 5", "1.5", "", "2147483648", "٣"])
def test_seeds_that_cannot_be_are_refused(ada, launch_form, seeds):
    response = ada.post("/runs/new", launch_form | {"seed": seeds})

    assert response.status_code == 422
    assert error_of(response, "seed")
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(name, text, marks=() if (number + place) % 2 == 0 else pytest.mark.deep)
        for number, name in enumerate(NAMES)
        for place, text in enumerate(["\0", "[" * 2000, "é" * 400, "-", "{{", "99999999999999999999999"])
    ],
)
def test_no_text_is_an_error_of_the_server(ada, launch_form, name, text):
    sent = launch_form | {"with_settings": "1", name: text, "source": "yaml" if name == "yaml" else "form"}

    assert ada.post("/runs/new/check", sent).status_code == 200
    assert ada.post("/runs/new", sent).status_code in (302, 422)


def test_a_recipe_is_chosen_in_its_size_and_the_prevalent_ones_stand_first(ada):
    page = text_of(ada.get("/runs/new", {"recipe": "scalerl"}))

    groups = page[page.index('id="id_recipe"') : page.index("</select>")]
    slugs = re.findall(r'<option value="([^"]+)"', groups)
    assert slugs[:5] == ["scalerl", "deepseek-grpo", "qwen25-dapo", "magistral", "minimax"]
    assert not any(slug.startswith("tiny-") for slug in slugs)
    assert 'href="/runs/new?recipe=tiny-scalerl&amp;revision=1">2 cores</a>' in page
    assert 'href="/runs/new?recipe=scalerl&amp;revision=1" aria-current="true">As published</a>' in page
