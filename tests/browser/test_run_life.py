"""What people do with a run, and what its page says of its attempts, in a real browser; with pictures."""

import pytest
from django.db.models import F
from playwright.sync_api import Page, Route, expect

from tests.browser.charts import live
from tests.browser.look import look
from tests.browser.test_run_page import open_run, roles
from tests.launching import launched
from tests.webapp.interfaces.pages.data import record
from webapp.record.runs import ingest, launch, lifecycle, places
from webapp.record.runs.models import Run


def resumed(make_run) -> Run:
    """30 evaluations, and a second attempt that resumed from the 20th and reported two that are lower."""
    run = make_run(30, ended="failed", message="generator 0 died: its node is gone")
    launch.resume_run(run, user=run.created_by)
    steps = sorted(run.records.values_list("step", flat=True))
    lifecycle.report_started(run, attempt=2, resumed_from_step=steps[19], device="cpu")
    for step in steps[20:22]:
        hours = run.records.get(step=step, attempt=1).compute["device_hours"]
        ingest.store_records(run, [record(step, hours, {"eval/pass_rate": 0.35}, attempt=2)])
    run.refresh_from_db()
    return run


@pytest.mark.deep
def test_superseded_points_come_and_go_with_the_address(page: Page, make_run) -> None:
    run = resumed(make_run)
    open_run(page, run)
    is_cross = "t => t.marker?.symbol === 'x-thin-open'"
    crosses = f"document.getElementById('chart').data.filter({is_cross}).map(t => t.x.length)"
    assert page.evaluate(crosses) == []
    button = page.get_by_role("button", name="Superseded")

    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    page.wait_for_url("**superseded=1**")
    page.wait_for_function(f"({crosses})[0] === 11")
    expect(page.locator("#superseded-key")).to_be_visible()
    page.reload()
    live(page)
    assert page.evaluate(crosses) == [11] and roles(page)["fitted"] <= 22
    look(page, "run-superseded")

    page.get_by_role("button", name="Superseded").click()
    page.wait_for_function(f"({crosses}).length === 0")


def test_a_late_answer_to_an_earlier_question_changes_nothing(page: Page, make_run) -> None:
    run = resumed(make_run)
    polls: list[Route] = []
    page.route("**/figure?*since=*", lambda route: polls.append(route))
    with page.expect_request("**/figure?*since=*"):
        open_run(page, run)
    button = page.get_by_role("button", name="Superseded")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    Run.objects.filter(pk=run.pk).update(
        version=F("version") + 1
    )  # the held poll brings a curve without them

    with page.expect_request("**/figure?*since=*"):  # the next one is sent when its answer has been seen
        polls[0].continue_()

    assert button.get_attribute("aria-pressed") == "true"
    page.unroute("**/figure?*since=*")


def test_the_attempts_tab_tells_the_history(page: Page, make_run) -> None:
    run = resumed(make_run)
    open_run(page, run, "?tab=attempts")

    history = page.get_by_role("region", name="Changes of state")
    expect(history).to_contain_text("generator 0 died: its node is gone")
    expect(history).to_contain_text("ada")
    look(page, "run-attempts")


@pytest.mark.deep
def test_a_budget_is_extended_on_the_page(page: Page, make_run) -> None:
    run = make_run(10)
    open_run(page, run)
    page.get_by_role("button", name="Extend").click()
    look(page, "run-extend")

    page.get_by_label("Device-hours in all").fill("32")
    page.get_by_role("dialog").get_by_role("button", name="Extend").click()

    expect(page.get_by_text("Extended the budget of")).to_be_visible()
    assert Run.objects.get().budget_hours == 32.0


@pytest.mark.deep
def test_a_queued_run_has_a_priority_and_a_draft_is_deleted(page: Page, make_run, project, user) -> None:
    places.set_queue(project, most_at_work=1, quota_hours=100.0, user=user)
    make_run(5)
    waiting = make_run(0, seed=1)
    lifecycle.claim_dispatches()
    page.goto(f"/runs/{waiting.pk}")
    expect(page.get_by_text("waits for a place in its project: 1 of 1 at work")).to_be_visible()
    page.get_by_role("combobox", name="Priority", exact=True).select_option("high")
    look(page, "run-queued")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_text("Changed the priority of")).to_be_visible()
    waiting.refresh_from_db()
    assert waiting.priority == Run.Priority.HIGH

    page.goto("/project/settings")
    look(page, "project-queue")

    draft = launched(
        user=user, project=project, recipe="tiny-scalerl", task="arithmetic", model="tiny-arithmetic", seed=9,
        budget_hours=1.0, draft=True,
    )  # fmt: skip
    page.goto(f"/runs/{draft.pk}")
    look(page, "run-draft")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete the draft").click()
    expect(page.get_by_text("Deleted the draft")).to_be_visible()
    assert not Run.objects.filter(pk=draft.pk).exists()
