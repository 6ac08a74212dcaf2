"""A run that trains elsewhere is put right in the browser: seen before it is saved, deleted and brought back."""

import pytest
from playwright.sync_api import expect

from tests.browser.look import look
from tests.launching import tracked_run
from tests.webapp.interfaces.pages.run.test_meaning import reported
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.models import Run


@pytest.mark.deep
def test_metrics_are_shown_before_they_are_saved_and_a_deleted_run_comes_back(page, user, project):
    run = tracked_run(user=user, project=project, name="elsewhere", task="math")
    ingest.store_records(run, [reported(i, "val/accuracy") for i in range(8)])
    lifecycle.report_finished(run, attempt=1, state="succeeded")

    page.goto(f"/runs/{run.pk}")
    page.get_by_role("button", name="Metrics", exact=True).click()
    page.get_by_label("Metric that is the held-out pass rate").fill("no/such")
    page.get_by_role("button", name="Show the curve").click()
    preview = page.locator("#meaning-preview")
    expect(preview).to_contain_text("This run has no metric no/such.")
    page.get_by_label("Metric that is the held-out pass rate").fill("val/accuracy")
    page.get_by_label("Devices that it trains on").fill("16")
    page.get_by_role("button", name="Show the curve").click()
    expect(preview).to_contain_text("8 evaluations: 0.200 at 0, …, ")
    expect(preview).to_contain_text("at 112 device-hours")
    look(page, "run-meaning")
    assert Run.objects.get(pk=run.pk).meaning == {}
    page.locator("#meaning-dialog").get_by_role("button", name="Save").click()
    expect(page.locator("#meaning-dialog")).to_be_hidden()  # it is open until the new page is there
    expect(page.get_by_text("112 device-hours").first).to_be_visible()

    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Name", exact=True).fill("grpo 8b")
    page.get_by_label("Notes").fill("Node 3 was slow.")
    look(page, "run-change")
    page.locator("#change-dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="grpo 8b")).to_be_visible()
    expect(page.get_by_text("Node 3 was slow.").first).to_be_visible()

    page.get_by_role("link", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete 1 run").click()
    expect(page.locator("#report")).to_contain_text("1 deleted.")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#report")).to_contain_text("1 restored.")
    expect(page.get_by_role("link", name="grpo 8b")).to_be_visible()


@pytest.mark.deep
def test_the_curves_of_many_are_shown_before_they_are_saved(page, user, project):
    for seed in range(2):
        run = tracked_run(user=user, project=project, name="elsewhere", task="math", seed=seed)
        ingest.store_records(run, [reported(i, "val/accuracy") for i in range(8)])

    page.goto("/runs")
    page.get_by_label("Choose every run on this page").check()
    page.get_by_role("button", name="Edit", exact=True).click()
    dialog = page.locator("#bulk-dialog")
    dialog.get_by_text("What their metrics mean").click()
    dialog.get_by_label("Metric that is the held-out pass rate").fill("val/accuracy")
    dialog.get_by_role("button", name="Show the curves").click()
    expect(dialog.locator("#bulk-preview svg")).to_have_count(2)
    look(page, "runs-change-many")
    dialog.get_by_role("button", name="Edit 2 runs").click()
    expect(page.locator("#report")).to_contain_text("2 changed.")
    assert [run.meaning for run in Run.objects.all()] == [{"pass_rate": "val/accuracy"}] * 2
