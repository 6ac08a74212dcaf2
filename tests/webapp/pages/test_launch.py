"""The launch form."""

import html
import json
import re
import shutil
from datetime import timedelta

import pytest
import yaml

from webapp.pages import configuration
from webapp.pages.launching.specs import by_path
from webapp.recipes.services import add_revision
from webapp.runs import launch as launching
from webapp.runs.models import Dispatch, Run

HTMX = {"HX-Request": "true"}


def error_of(response, field):
    """The error beside a field, as a browser shows it."""
    found = re.search(rf'id="id_{field}_error"[^>]*>([^<]*)<', response.content.decode())
    return found[1] if found else None


def test_the_form_starts_with_the_recipes_own_values(ada):
    page = ada.get("/runs/new", {"recipe": "tiny-deepseek-grpo"}).content.decode()

    assert '<option value="tiny-deepseek-grpo" selected>' in page
    assert 'name="budget_hours" value="0.0275"' in page
    assert "GRPO" in page
    assert "one device-hour is 30 minutes of training" in page


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
    return add_revision(recipe=recipe, config=config)


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
    assert "cannot be stored" in ask("a\0b")
    for name in ("small-3b", "mini"):
        shutil.rmtree(headroom_home / "models" / name)


def test_the_form_starts_with_the_hints_of_its_own_model(ada, odd_recipe):
    page = ada.get("/runs/new", {"recipe": "tiny-scalerl"}).content.decode()

    assert '<dt class="mono">optimizer.lr</dt>' in page
    assert 'hx-post="/runs/new/check"' in page


@pytest.fixture
def whole_form(ada, launch_form):
    """What a browser sends of the whole form of the tiny default, as the page has it."""
    page = ada.get("/runs/new", {"recipe": "tiny-scalerl"}).content.decode()
    inputs = re.findall(r"<input[^>]*>", page)
    sent = {
        name[1]: value[1]
        for tag in inputs
        if (name := re.search(r'name="(s\.[^"]+)"', tag)) and (value := re.search(r'value="([^"]*)"', tag))
        if "type=" in tag and ("checkbox" not in tag and "radio" not in tag or " checked" in tag)
    }
    areas = re.findall(r'<textarea[^>]*name="([^"]+)"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL)
    selects = re.findall(r'<select[^>]*name="(s\.[^"]+)"[^>]*>(.*?)</select>', page, re.DOTALL)
    chosen = {name: re.search(r'value="([^"]*)" selected', options) for name, options in selects}
    return (
        launch_form
        | sent
        | {name: html.unescape(text) for name, text in areas}
        | {name: found[1] if found else "" for name, found in chosen.items()}
        | {"with_settings": "1", "source": "form"}
    )


def check(ada, form):
    response = ada.post("/runs/new/check", form)
    assert response.status_code == 200
    return response.content.decode()


def test_the_page_as_it_comes_differs_in_nothing(ada, whole_form):
    answer = check(ada, whole_form)

    assert "Every setting fits" in answer
    assert "data-differs" not in re.sub(r'<div id="st-e-budget.*?</div></div>', "", answer)
    assert ada.post("/runs/new", whole_form).status_code == 302
    assert Run.objects.get().revision.number == 1


def test_a_changed_setting_becomes_a_revision_that_the_run_trains(ada, whole_form, project):
    answer = check(ada, whole_form | {"s.optimizer.lr": "1e-4"})
    assert "rev 1 says <code>5e-5</code>" in answer
    assert 'id="generated" hx-swap-oob="true">optimizer.lr 5e-5 → 0.0001</span>' in answer

    ada.post("/runs/new", whole_form | {"s.optimizer.lr": "1e-4"})

    run = Run.objects.get()
    recipe = project.recipes.get(slug="tiny-scalerl")
    assert (run.revision.number, run.revision.recipe) == (2, recipe)
    assert run.revision.message == "optimizer.lr 5e-5 → 0.0001"
    assert run.config["optimizer"]["lr"] == 1e-4
    assert recipe.revisions.get(number=1).config["optimizer"]["lr"] == 5e-5
    assert run.revision.config["budget"] == recipe.revisions.get(number=1).config["budget"]


def test_a_message_of_ones_own_is_kept(ada, whole_form):
    ada.post("/runs/new", whole_form | {"s.optimizer.lr": "1e-4", "message": "twice as fast?"})

    assert Run.objects.get().revision.message == "twice as fast?"


def test_a_double_click_with_changes_makes_one_revision_and_one_run(ada, whole_form, project):
    sent = whole_form | {"s.optimizer.lr": "1e-4", "seed": "1, 2"}

    ada.post("/runs/new", sent)
    ada.post("/runs/new", sent)

    assert Run.objects.count() == 2
    assert project.recipes.get(slug="tiny-scalerl").revisions.count() == 2


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


def test_a_wrong_setting_is_said_beside_it_and_nothing_is_stored(ada, whole_form, project):
    response = ada.post("/runs/new", whole_form | {"s.optimizer.lr": "-1", "s.eval.prompts": "many"})

    page = response.content.decode()
    assert response.status_code == 422
    assert 'id="i-optimizer-lr_error">Must be greater than 0.' in page
    assert 'id="i-eval-prompts_error">Must be a whole number.' in page
    assert 'value="many"' in page
    assert "2 things to mend" in page
    assert not Run.objects.exists()
    assert project.recipes.get(slug="tiny-scalerl").revisions.count() == 1


def test_what_does_not_fit_together_stands_on_top(ada, whole_form):
    answer = check(ada, whole_form | {"s.resources.shared": "true"})

    assert "resources.shared needs phases that alternate" in answer


def test_the_text_goes_into_the_form(ada, whole_form):
    text = whole_form["yaml"].replace("lr: 5.0e-5", "lr: 2e-4").replace("seed: 0", "seed: 5")
    sent = whole_form | {"source": "yaml", "yaml": text, "changed": "yaml"}

    answer = check(ada, sent)
    assert 'name="s.optimizer.lr" value="0.0002"' in answer
    assert 'id="yaml" name="yaml"' not in answer, "the text that is being written is left alone"
    assert re.search(r'name="seed" value="5"', answer)

    ada.post("/runs/new", sent)
    assert (Run.objects.get().seed, Run.objects.get().config["optimizer"]["lr"]) == (5, 2e-4)


def test_a_text_that_is_no_yaml_keeps_the_form_and_launches_nothing(ada, whole_form):
    sent = whole_form | {"source": "yaml", "yaml": "optimizer:\n  lr: [1\nx: 2"}

    answer = check(ada, sent)
    assert "The text is not YAML in line 3" in answer
    assert "data-broken" in answer
    assert 'id="settings"' not in answer

    response = ada.post("/runs/new", sent)
    assert response.status_code == 422
    assert "  lr: [1\nx: 2</textarea>" in response.content.decode()
    assert not Run.objects.exists()


def test_the_form_goes_into_the_text(ada, whole_form):
    answer = check(ada, whole_form | {"s.rollout.generations_per_prompt": "4"})

    assert "generations_per_prompt: 4" in answer


def test_what_it_costs_is_measured_or_said_to_be_unknown(ada, whole_form, make_run):
    form = whole_form | {"budget_hours": "4", "seed": "1, 2"}
    unknown = check(ada, form)
    assert "8.00 device-hours" in unknown
    assert "2 h</strong>" in unknown, "4 device-hours on 2 cores"
    assert "nothing is known of updates" in unknown

    run = make_run(30, ended="succeeded")
    run.started_at = run.ended_at - timedelta(hours=6)  # 8 device-hours on 2 cores are 4 of these
    run.save(update_fields=["started_at"])

    known = check(ada, form)
    assert "3 h</strong>" in known
    assert "about 15" in known, "30 updates in 8 device-hours"
    assert "Measured on 1 run of ScaleRL (tiny) on arithmetic with tiny-arithmetic" in known


def test_what_it_waits_for_is_counted_and_the_cluster_is_not_guessed(ada, whole_form, make_run):
    assert "No run is queued or working" in check(ada, whole_form)

    make_run(0), make_run(5, seed=1)

    answer = check(ada, whole_form)
    assert "1 run waits before it, 1 run at work" in answer
    assert "No Ray cluster is known" in answer


def test_a_clone_has_the_settings_of_its_run_and_the_next_free_seed(ada, make_run):
    run = make_run(0, seed=4, name="mine", budget_hours=2.5)
    make_run(0, seed=5, budget_hours=2.5)

    page = ada.get("/runs/new", {"clone": run.pk}).content.decode()

    assert 'name="seed" value="6"' in page
    assert 'name="budget_hours" value="2.5"' in page
    assert 'name="name" value="mine"' in page
    assert f'name="clone" value="{run.pk}"' in page


def test_a_clone_of_an_earlier_revision_stays_with_it(ada, whole_form, make_run):
    run = make_run(0)
    ada.post("/runs/new", whole_form | {"s.optimizer.lr": "1e-4"})

    page = ada.get("/runs/new", {"clone": run.pk}).content.decode()

    assert re.search(r'<option value="1" selected>', page)


def test_changing_one_thing_changes_one_thing(ada, make_run, launch_form):
    run = make_run(0, seed=2, budget_hours=3.0)
    query = {"clone": run.pk, "change": "optimizer.lr"}
    page = ada.get("/runs/new", query).content.decode()
    assert 'name="s.optimizer.lr" value="5e-5"' in page
    assert 'name="s.loss.type"' not in page
    assert 'type="hidden" name="seed" value="2"' in page

    sent = launch_form | query | {"seed": "2", "budget_hours": "3", "task_options": yaml_of(run)}
    assert "Nothing differs from" in check(ada, sent | {"s.optimizer.lr": "5e-5"})
    assert ada.post("/runs/new", sent | {"s.optimizer.lr": "5e-5"}).status_code == 422
    sent |= {"s.optimizer.lr": "1e-4"}
    assert "optimizer.lr 5e-5 → 0.0001</strong>" in check(ada, sent)
    response = ada.post("/runs/new", sent)

    launched = Run.objects.get(pk=response.url.removeprefix("/runs/"))
    assert configuration.differences(run.config, launched.config) == [
        configuration.Change("optimizer.lr", "5.0e-05", "0.0001")
    ]


def test_one_switch_can_be_turned_off_alone(ada, make_run, launch_form):
    run = make_run(0, seed=3)
    sent = launch_form | {"clone": run.pk, "change": "checkpoint.save_model", "budget_hours": "16"}

    response = ada.post("/runs/new", sent | {"task_options": yaml_of(run)})

    launched = Run.objects.get(pk=response.url.removeprefix("/runs/"))
    assert launched.config["checkpoint"]["save_model"] is False


def yaml_of(run):
    return yaml.safe_dump(run.config["task"]["options"])


def test_every_setting_can_be_the_one_that_changes(ada, make_run):
    run = make_run(0)

    for path in by_path():
        page = ada.get("/runs/new", {"clone": run.pk, "change": path}).content.decode()
        assert "Change one thing" in page, path


def test_a_run_of_another_project_cannot_be_cloned(ada, foreign_run):
    assert ada.get("/runs/new", {"clone": foreign_run.pk}).status_code == 404
    assert ada.get("/runs/new", {"clone": "a\0b"}).status_code == 404


def test_a_tracked_run_without_recipe_is_no_start(ada, user, project):
    run = launching.track_run(user=user, project=project, name="elsewhere")

    assert "tracked without a recipe" in ada.get("/runs/new", {"clone": run.pk}).content.decode()


@pytest.mark.parametrize(
    "name", ["s.optimizer.lr", "task_options", "seed", "recipe", "change", "yaml", "message", "name"]
)
@pytest.mark.parametrize("text", ["\0", "[" * 2000, "é" * 400, "-", "{{", "99999999999999999999999"])
def test_no_text_is_an_error_of_the_server(ada, launch_form, name, text):
    sent = launch_form | {"with_settings": "1", name: text, "source": "yaml" if name == "yaml" else "form"}

    assert ada.post("/runs/new/check", sent).status_code == 200
    assert ada.post("/runs/new", sent).status_code in (302, 422)


def test_checking_costs_the_same_queries_with_more_runs(
    ada, whole_form, make_run, django_assert_max_num_queries
):
    for seed in range(3):
        make_run(3, seed=seed)
    with django_assert_max_num_queries(16):
        check(ada, whole_form)
    with django_assert_max_num_queries(12):
        ada.get("/runs/new")


def test_presets_have_the_prevalent_ones_first(ada):
    page = ada.get("/runs/new").content.decode()

    slugs = re.findall(r'class="chip preset" href="/runs/new\?recipe=([^"]+)"', page)
    assert slugs[:5] == [
        "tiny-scalerl",
        "tiny-deepseek-grpo",
        "tiny-qwen25-dapo",
        "tiny-magistral",
        "tiny-minimax",
    ]
    assert slugs[5] == "scalerl"
