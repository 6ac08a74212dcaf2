"""Alarms and curves of parts in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_run_page import open_run
from tests.webapp.interfaces.pages.data import mixture_records, record
from webapp.record.runs import ingest
from webapp.reporting.alarms.services import judge_run

RATE = "train/truncation_rate"


def report(run, rates, *, first=31) -> None:
    ingest.store_records(run, [record(first + i, 8.1, {RATE: rate}) for i, rate in enumerate(rates)])
    judge_run(run.pk)


@pytest.mark.deep
def test_an_alarm_arrives_by_itself_leads_to_its_panel_and_is_over_by_itself(page: Page, make_run):
    run = make_run(30)
    open_run(page, run)
    expect(page.locator(".alarm-item")).to_have_count(0)

    report(run, [0.12, 0.13, 0.12])
    expect(page.locator(".alarm-item.warning")).to_contain_text("at or above 10 % since step 31, now 12 %")
    expect(page.locator("#alarm")).to_have_text("truncation rate 12 %")
    panel = page.locator("#metric-train-truncation_rate")
    expect(panel.locator(".pill")).to_contain_text("warning 12 %")
    expect(panel.locator("svg > text").first).to_have_text(re.compile(r"^\d+ %$"))  # of its axis
    page.click(".alarm-item a")
    expect(panel).to_be_focused()
    expect(panel).to_be_in_viewport()

    report(run, [0.02], first=34)
    expect(page.locator(".alarm-item")).to_have_count(0)
    expect(page.locator("#alarm")).to_be_hidden()
    expect(page.locator("#alarms summary")).to_have_text("1 past alarm")


def test_opened_past_alarms_stay_open_while_records_arrive(page: Page, make_run):
    run = make_run(30)
    report(run, [0.12, 0.13, 0.12, 0.02])
    open_run(page, run)
    page.click("#alarms summary")

    report(run, [0.2, 0.2, 0.2, 0.02], first=40)

    expect(page.locator("#alarms li")).to_contain_text("Critical: Truncation rate was at or above 15 %")
    expect(page.locator("#alarms details")).to_have_attribute("open", "")


def test_the_curve_of_a_part_keeps_axis_and_cutoff(page: Page, make_run):
    run = make_run(0)
    ingest.store_records(run, mixture_records(0, 30))
    open_run(page, run, "?x=tokens&cutoff=8000000")

    page.select_option("#curve", label="math")

    expect(page.locator("[data-text=metric_label]")).to_contain_text("pass rate on math")
    expect(page.locator("#fit-title")).to_contain_text("to 8.00e6 tokens")
    assert "metric=eval%2Fmath%2Fpass_rate" in page.url
    assert "x=tokens" in page.url and "cutoff=8000000" in page.url
    page.reload()
    expect(page.locator("#curve")).to_have_value("eval/math/pass_rate")


def test_hints_follow_the_text_of_a_revision(page: Page, project):
    page.goto("/recipes/tiny-scalerl/new")
    expect(page.locator("#hints dt")).to_have_count(0)
    text = page.locator("textarea").input_value()

    page.fill(
        "textarea", text.replace("kl_coef: 0.0", "kl_coef: 0.3").replace("kl_estimate: k3", "kl_estimate: k1")
    )

    expect(page.locator("#hints")).to_contain_text("As a loss k1 has a mean gradient of 0")


def test_hints_follow_the_model_of_a_launch(page: Page, make_run, project):
    from webapp.record.recipes.services import add_revision

    recipe = project.recipes.get(slug="tiny-scalerl")
    config = recipe.revisions.get().config
    config["loss"] |= {"epochs": 20}
    add_revision(recipe=recipe, config=config)
    page.goto("/runs/new?recipe=tiny-scalerl")

    with page.expect_response(lambda response: response.url.endswith("/runs/new/check")) as answered:
        page.fill("input[name=model]", "another-model")

    assert answered.value.ok
    expect(page.locator("#hints dt", has_text="loss.epochs")).to_be_visible()
