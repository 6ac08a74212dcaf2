"""A run as the start of the next one."""

import re

import pytest
import yaml

from tests.deep import IS_DEEP
from tests.launching import tracked_run
from tests.webapp.interfaces.pages.launching.forms import check
from webapp.interfaces.pages import configuration
from webapp.interfaces.pages.launching.specs import by_path
from webapp.record.runs.models import Run


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
    assert 'name="s.optimizer.lr" value="8e-5"' in page
    assert 'name="s.loss.type"' not in page
    assert 'type="hidden" name="seed" value="2"' in page

    sent = launch_form | query | {"seed": "2", "budget_hours": "3", "task_options": yaml_of(run)}
    assert "Nothing differs from" in check(ada, sent | {"s.optimizer.lr": "8e-5"})
    assert ada.post("/runs/new", sent | {"s.optimizer.lr": "8e-5"}).status_code == 422
    sent |= {"s.optimizer.lr": "1e-4"}
    assert "optimizer.lr 8e-5 → 0.0001</strong>" in check(ada, sent)
    response = ada.post("/runs/new", sent)

    launched = Run.objects.get(pk=response.url.removeprefix("/runs/"))
    assert configuration.differences(run.config, launched.config) == [
        configuration.Change("optimizer.lr", "8.0e-05", "0.0001")
    ]


def test_one_switch_can_be_turned_off_alone(ada, make_run, launch_form):
    run = make_run(0, seed=3)
    sent = launch_form | {"clone": run.pk, "change": "checkpoint.save_model", "budget_hours": "16"}

    response = ada.post("/runs/new", sent | {"task_options": yaml_of(run)})

    launched = Run.objects.get(pk=response.url.removeprefix("/runs/"))
    assert launched.config["checkpoint"]["save_model"] is False


def yaml_of(run):
    return yaml.safe_dump(run.config["task"]["options"])


@pytest.mark.long_form
def test_every_setting_can_be_the_one_that_changes(ada, make_run):
    run = make_run(0)

    for path in list(by_path())[:: 1 if IS_DEEP else 5]:
        page = ada.get("/runs/new", {"clone": run.pk, "change": path}).content.decode()
        assert "Change one thing" in page, path


def test_a_run_of_another_project_cannot_be_cloned(ada, foreign_run):
    assert ada.get("/runs/new", {"clone": foreign_run.pk}).status_code == 404
    assert ada.get("/runs/new", {"clone": "a\0b"}).status_code == 404


def test_a_tracked_run_without_recipe_is_no_start(ada, user, project):
    run = tracked_run(user=user, project=project, name="elsewhere")

    assert "tracked without a recipe" in ada.get("/runs/new", {"clone": run.pk}).content.decode()
