"""Priority and automatic retries: fields of the launch form that are no part of the recipe."""

import re

import pytest

from tests.webapp.interfaces.pages.launching.forms import check, error_of
from webapp.record.runs import places
from webapp.record.runs.models import Run


def selected(page, name):
    """The value of a select that the page shows."""
    return re.search(rf'<select name="{name}".*?value="([^"]*)" selected', page, re.DOTALL)[1]


def test_priority_and_retries_are_the_runs_own(ada, launch_form, settings):
    settings.RETRIES = 7
    page = ada.get("/runs/new").content.decode()
    assert selected(page, "priority") == str(Run.Priority.NORMAL)
    assert "Empty: 7." in page

    ada.post("/runs/new", launch_form | {"priority": "2", "retries": "0", "seed": "1, 2"})
    ada.post("/runs/new", launch_form | {"seed": "3", "retries": "", "idempotency_key": "key-2"})

    rows = Run.objects.order_by("seed").values_list("seed", "priority", "retry_limit", "revision__number")
    assert list(rows) == [(1, 2, 0, 1), (2, 2, 0, 1), (3, Run.Priority.NORMAL, None, 1)]


@pytest.mark.parametrize("retries", ["-1", "101", "two", "1.5"])
def test_wrong_retries_are_said_while_typing_and_launch_nothing(ada, launch_form, retries):
    wrong = launch_form | {"retries": retries}
    words = "Automatic retries are a whole number from 0 to 100, or empty."

    assert words in check(ada, wrong)
    response = ada.post("/runs/new", wrong)

    assert (response.status_code, error_of(response, "retries")) == (422, words)
    assert not Run.objects.exists()


def test_a_priority_that_there_is_not_is_refused(ada, launch_form):
    response = ada.post("/runs/new", launch_form | {"priority": "9"})

    assert response.status_code == 422
    assert "not one of the available choices" in error_of(response, "priority")


def test_a_clone_and_another_recipe_keep_them(ada, launch_form):
    ada.post("/runs/new", launch_form | {"priority": "0", "retries": "5"})
    run = Run.objects.get()

    for query in ({"clone": run.pk}, {"recipe": "tiny-magistral", "priority": "0", "retries": "5"}):
        page = ada.get("/runs/new", query).content.decode()
        assert selected(page, "priority") == "0"
        assert 'name="retries" value="5"' in page
    one = ada.get("/runs/new", {"clone": run.pk, "change": "optimizer.lr"}).content.decode()
    assert 'type="hidden" name="priority" value="0"' in one
    assert 'type="hidden" name="retries" value="5"' in one


def test_what_the_quota_does_not_reach_is_said_while_typing(ada, project, launch_form):
    places.set_queue(project, most_at_work=None, quota_hours=0.02, user=None)
    beyond = launch_form | {"budget_hours": "0.015", "seed": "1, 2"}
    words = "quota has 0.02 device-hours left, and this asks for 0.03"

    said = check(ada, beyond)

    assert words in said
    assert "Ready to launch" not in said
    assert "Ready to launch" in check(ada, beyond | {"seed": "1"})
    assert "quota" in error_of(ada.post("/runs/new", beyond), "budget_hours")
    assert ada.post("/runs/new", beyond | {"draft": "1"}).status_code == 302


def test_a_full_disk_is_said_while_typing(ada, launch_form, settings):
    settings.MIN_FREE_BYTES = 2**62

    said = check(ada, launch_form)

    assert "nothing is launched until there is room" in said
    assert "Ready to launch" not in said
