"""What people do with a run on its page, and what the page says of its attempts."""

import pytest

from tests.launching import tracked_run
from tests.webapp.interfaces.pages.data import record
from tests.webapp.interfaces.pages.reading import page_of
from tests.webapp.interfaces.pages.test_run import figure_in, offered
from webapp.record.runs import ingest, launch, lifecycle
from webapp.record.runs.models import ProjectQueue, Run


@pytest.fixture
def resumed(make_run):
    """A run of 10 evaluations whose second attempt resumed from the step of the 6th and reported one that differs."""
    run = make_run(10, ended="failed")
    launch.resume_run(run, user=None)
    steps = sorted(run.records.values_list("step", flat=True))
    lifecycle.report_started(run, attempt=2, resumed_from_step=steps[5], device="cpu")
    hours = run.records.get(step=steps[6]).compute["device_hours"]
    ingest.store_records(run, [record(steps[6], hours, {"eval/pass_rate": 0.01}, attempt=2)])
    return run


def test_a_queued_run_has_a_priority_and_the_extended_one_its_budget(ada, make_run):
    run = make_run(0)
    assert offered(page_of(ada, run)) == {"stop", "extend", "priority"}

    ada.post(f"/runs/{run.pk}/priority", {"priority": "2"})
    ada.post(f"/runs/{run.pk}/extend", {"budget_hours": "20"})

    run.refresh_from_db()
    assert (run.priority, run.budget_hours) == (2, 20.0)


@pytest.mark.parametrize(
    ("hours", "words"),
    [("much", "The budget was not extended"), ("0.001", "spent already"), ("16", "can only be extended")],
)
def test_a_budget_that_is_none_is_said(ada, make_run, hours, words):
    run = make_run(10)

    page = ada.post(f"/runs/{run.pk}/extend", {"budget_hours": hours}, follow=True).content.decode()

    assert words in page and Run.objects.get(pk=run.pk).budget_hours == 16.0


def test_a_run_that_succeeded_is_resumed_after_it_was_extended_only(ada, make_run):
    run = make_run(10, ended="succeeded", budget_hours=0.5)
    used = run.summary.used_hours
    Run.objects.filter(pk=run.pk).update(budget_hours=used)
    assert offered(page_of(ada, run)) == {"extend"}

    ada.post(f"/runs/{run.pk}/extend", {"budget_hours": str(round(2 * used, 3))})

    assert offered(page_of(ada, run)) == {"extend", "resume"}


def test_a_draft_is_saved_by_the_form_and_launched_or_deleted_on_its_page(ada, launch_form):
    response = ada.post("/runs/new", launch_form | {"draft": "1"})
    run = Run.objects.get()

    assert (run.state, response.url) == ("draft", f"/runs/{run.pk}")
    assert offered(page_of(ada, run)) == {"launch", "delete", "priority"}
    assert "A draft has no attempt yet" in page_of(ada, run, "?tab=attempts")
    ada.post(f"/runs/{run.pk}/launch")
    assert Run.objects.get().state == "queued"
    page = ada.post(f"/runs/{run.pk}/delete", follow=True).content.decode()
    assert "no draft any more" in page


def test_a_deleted_draft_is_gone(ada, launch_form):
    ada.post("/runs/new", launch_form | {"draft": "1"})

    response = ada.post(f"/runs/{Run.objects.get().pk}/delete")

    assert response.url == "/runs" and not Run.objects.exists()


def test_the_history_says_who_did_what_and_why(ada, make_run):
    run = make_run(10, ended="failed", message="the verifier did not answer")

    page = page_of(ada, run, "?tab=attempts")

    history = page[page.index("What happened") :]
    assert history.index("the verifier did not answer") < history.index("made")  # the newest first
    assert "ada" in history and "driver" in history


def test_superseded_points_are_shown_where_the_address_asks(ada, resumed):
    plain = figure_in(page_of(ada, resumed))
    asked = figure_in(page_of(ada, resumed, "?superseded=1"))

    assert plain["superseded"] is None and plain["attempts_overlap"]
    assert len(asked["superseded"]["x"]) == 5 and set(asked["superseded"]["attempt"]) == {1}
    assert asked["points"] == plain["points"] and 0.01 in asked["points"]["y"]
    assert asked["asked"]["superseded"] is True
    assert 0.01 not in asked["superseded"]["y"]


def test_places_and_quota_are_set_by_admins_and_shown(ada, project):
    ada.post("/project/queue", {"most_at_work": "2", "quota_hours": "100"})
    page = ada.get("/project/settings").content.decode()
    wrong = ada.post("/project/queue", {"most_at_work": "none", "quota_hours": ""})

    row = ProjectQueue.objects.get(project=project)
    assert (row.most_at_work, row.quota_hours) == (2, 100.0)
    assert "100 of 100 device-hours are left" in page
    assert wrong.status_code == 422


@pytest.mark.parametrize(
    ("ended", "words"),
    [(None, "The first comes before the first update"), ("failed", "It ended before the first one")],
)
def test_a_run_without_an_evaluation_says_whether_one_will_come(ada, make_run, ended, words):
    assert words in page_of(ada, make_run(0, ended=ended))


def test_a_run_from_elsewhere_was_not_launched(ada, user, project):
    run = tracked_run(user=user, project=project, name="elsewhere", task="math", model="8b")

    page = page_of(ada, run)

    assert ", added <time" in page and ", launched <time" not in page


def test_a_run_from_elsewhere_is_stopped_until_it_has_ended_and_then_deleted(ada, user, project):
    run = tracked_run(user=user, project=project, name="elsewhere")
    ingest.store_records(run, [record(0, 1.5, {"train/reward": 0.5})])

    page = page_of(ada, run)
    assert f"?action=stop&amp;run={run.pk}" in page and f"?action=delete&amp;run={run.pk}" not in page
    assert figure_in(page)["progress"]["text"] == "1.50 device-hours"  # it has not evaluated yet
    lifecycle.cancel_run(run, user=user)
    page = page_of(ada, run)
    assert f"?action=stop&amp;run={run.pk}" not in page and f"?action=delete&amp;run={run.pk}" in page
