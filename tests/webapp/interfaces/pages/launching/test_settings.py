"""Every setting on the page: what differs becomes a revision, and the text beside the form says the same."""

import re
import shutil
from datetime import timedelta

from tests.webapp.interfaces.pages.launching.forms import check
from training.models import MADE
from webapp.record.health.services import note_cluster
from webapp.record.runs.models import Run


def test_the_page_as_it_comes_differs_in_nothing(ada, whole_form):
    answer = check(ada, whole_form)

    assert "Ready to launch" in answer
    assert "data-differs" not in re.sub(r'(?s)<div id="st-e-budget.*?</div>\s*</div>', "", answer)
    assert ada.post("/runs/new", whole_form).status_code == 302
    assert Run.objects.get().revision.number == 1


def test_a_changed_setting_becomes_a_revision_that_the_run_trains(ada, whole_form, project):
    answer = check(ada, whole_form | {"s.optimizer.lr": "1e-4"})
    assert "rev 1 says <code>8e-5</code>" in answer
    assert 'id="generated" hx-swap-oob="true">optimizer.lr 8e-5 → 0.0001</span>' in answer

    ada.post("/runs/new", whole_form | {"s.optimizer.lr": "1e-4"})

    run = Run.objects.get()
    recipe = project.recipes.get(slug="tiny-scalerl")
    assert (run.revision.number, run.revision.recipe) == (2, recipe)
    assert run.revision.message == "optimizer.lr 8e-5 → 0.0001"
    assert run.config["optimizer"]["lr"] == 1e-4
    assert recipe.revisions.get(number=1).config["optimizer"]["lr"] == 8e-5
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


def test_a_budget_beyond_reason_is_said_beside_it(ada, whole_form):
    answer = check(ada, whole_form | {"budget_hours": "1e99"})

    assert "Must be above 0 and at most 1,000,000 device-hours." in answer
    assert "What it costs" not in answer


def test_what_does_not_fit_together_stands_on_top(ada, whole_form):
    answer = check(ada, whole_form | {"s.resources.shared": "true"})

    assert "resources.shared needs phases that alternate" in answer


def test_what_no_longer_fits_is_said_at_once(ada, whole_form, model_folder):
    shutil.copy(MADE / model_folder.name / "config.json", model_folder)

    sent = whole_form | {"s.engine.type": "vllm"}

    assert "of this machine" not in check(ada, sent)
    assert "of this machine" in check(ada, sent | {"s.engine.kv_cache_mib": "200000000"})


def test_the_text_goes_into_the_form(ada, whole_form):
    text = whole_form["yaml"].replace("lr: 8.0e-5", "lr: 2e-4").replace("seed: 0", "seed: 5")
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
    assert "No Ray cluster is known" in check(ada, whole_form)

    note_cluster([{"id": "n", "alive": True, "gpus": 0, "cpus": 2}])
    assert "There is room: the worker hands it over at once." in check(ada, whole_form)

    make_run(0)
    assert "It waits for the cluster: needs 2 CPU cores, 0 free; behind 1 run at work" in check(
        ada, whole_form
    )


def test_checking_costs_the_same_queries_with_more_runs(
    ada, whole_form, make_run, django_assert_max_num_queries
):
    for seed in range(3):
        make_run(3, seed=seed)
    with django_assert_max_num_queries(23):
        check(ada, whole_form)
    with django_assert_max_num_queries(12):
        ada.get("/runs/new")
