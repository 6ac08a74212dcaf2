"""Launching in a real browser: form, text beside it, one changed setting, a clone."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.look import look
from webapp.record.runs.models import Run


def checked(page: Page):
    """The next answer of the check."""
    return page.expect_response(lambda response: response.url.endswith("/runs/new/check"))


@pytest.mark.deep
def test_one_changed_setting_is_launched_as_a_new_revision(page: Page, model_folder):
    page.goto("/runs/new?recipe=tiny-scalerl")
    expect(page.locator("#summary")).to_contain_text("Ready to launch")
    look(page, "launch-closed")

    page.get_by_placeholder(re.compile("Search [0-9]+ settings")).fill("learning rate optimizer.lr")
    expect(page.locator("#sec-optimizer")).to_have_attribute("open", "")
    expect(page.locator("#sec-loss")).to_be_hidden()
    lr = page.get_by_label("Learning rate", exact=True)
    page.evaluate("for (const id of ['st-loss-type', 'yaml']) document.getElementById(id).stayed = true")
    with checked(page):
        lr.fill("1e-4")
    expect(page.locator("#st-optimizer-lr")).to_contain_text("rev 1 says 8e-5")
    kept = page.evaluate("['st-loss-type', 'yaml'].map(id => document.getElementById(id).stayed ?? false)")
    assert kept == [True, False]  # only what stands otherwise than before is swapped
    expect(page.locator("#b-optimizer")).to_contain_text("1 differs")
    expect(page.locator("#generated")).to_have_text("optimizer.lr 8e-5 → 0.0001")
    page.get_by_placeholder(re.compile("Search [0-9]+ settings")).fill("")
    expect(page.locator("#sec-loss")).to_be_visible()
    page.locator("#sec-loss summary").click()
    page.locator("#sec-optimizer summary").click()
    look(page, "launch-open")

    with checked(page):
        page.locator("#st-optimizer-lr").get_by_role("button", name="reset").click()
    expect(lr).to_have_value("8e-5")
    with checked(page):
        lr.fill("-1")
    expect(page.locator("#i-optimizer-lr_error")).to_have_text("Must be greater than 0.")
    expect(lr).to_have_attribute("aria-invalid", "true")
    page.locator("#settings-search").fill("")
    look(page, "launch-errors")
    page.watch.expect("422")
    page.get_by_role("button", name="Launch").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was launched")
    expect(page.get_by_label("Learning rate", exact=True)).to_have_value("-1")
    page.get_by_label("Learning rate", exact=True).fill("1e-4")
    expect(page.locator("#summary")).to_contain_text("Ready to launch")
    page.get_by_role("button", name="Launch").click()

    expect(page.locator("#state")).to_have_text("queued, attempt 1")
    run = Run.objects.get()
    assert (run.revision.number, run.config["optimizer"]["lr"]) == (2, 1e-4)


def test_a_recipe_chosen_before_the_scripts_are_there_is_the_one_shown(page: Page, model_folder):
    held = []
    page.route("**/htmx-2.min*.js", lambda route: held.append(route))
    page.goto("/runs/new?recipe=tiny-scalerl", wait_until="commit")

    page.get_by_label("Recipe").select_option("tiny-minimax")
    held[0].continue_()

    expect(page).to_have_url(re.compile("recipe=tiny-minimax"))
    expect(page.locator("aside h2")).not_to_have_text("ScaleRL (tiny)")
    expect(page.get_by_label("Recipe")).to_have_value("tiny-minimax")


def test_the_text_and_the_form_stay_in_step(page: Page, model_folder):
    page.goto("/runs/new?recipe=tiny-scalerl")
    expect(page.locator("#summary")).to_contain_text("Ready to launch")
    page.get_by_role("button", name="YAML").click()
    text = page.locator("#yaml")

    with checked(page):
        text.fill(text.input_value().replace("generations_per_prompt: 16", "generations_per_prompt: 4"))
    assert "view=yaml" in page.url
    expect(page.locator("#generated")).to_have_text("rollout.generations_per_prompt 16 → 4")
    page.locator("[data-view=form]").click()
    page.locator("#view-form > summary").click()
    page.locator("#sec-rollout summary").click()
    expect(page.locator("#i-rollout-generations_per_prompt")).to_have_value("4")
    with checked(page):
        page.locator("#i-rollout-generations_per_prompt").fill("6")
    page.get_by_role("button", name="YAML").click()
    expect(text).to_have_value(re.compile("generations_per_prompt: 6"))

    with checked(page):
        text.fill(text.input_value() + "\nbroken: [")
    expect(page.locator("#yaml_error")).to_contain_text("not YAML in line")
    expect(page.locator("[data-view=form]")).to_be_disabled()
    assert text.input_value().endswith("broken: [")
    look(page, "launch-yaml")
    with checked(page):
        page.get_by_role("button", name="Discard the text").click()
    expect(page.locator("[data-view=form]")).to_be_enabled()
    expect(text).not_to_have_value(re.compile("broken"))
    page.locator("[data-view=form]").click()

    page.locator("#sec-loss summary").click()
    with checked(page):
        page.locator("#i-loss-type").select_option("grpo")
    expect(page.locator("#i-loss-eps_low")).to_have_value("0.2")
    expect(page.locator("#i-loss-eps_max")).to_have_value("")


@pytest.mark.deep
def test_a_run_is_cloned_and_one_thing_changed(page: Page, make_run):
    run = make_run(6, name="ScaleRL, first", seed=3)
    page.goto(f"/runs/new?clone={run.pk}")
    expect(page.get_by_label("Seeds")).to_have_value("4")
    expect(page.locator("#summary")).to_contain_text("Nothing differs from rev 1")

    page.get_by_role("link", name="Change one thing only").click()
    expect(page.locator("#summary")).to_contain_text("Nothing differs")
    page.get_by_label("Setting", exact=True).select_option("loss.type")
    page.locator("#i-loss-type").select_option("dapo")
    expect(page.locator("#one-line")).to_contain_text("loss.type cispo → dapo")
    assert "change=loss.type" in page.url
    look(page, "launch-one-thing")
    page.get_by_role("button", name="Launch").click()

    expect(page.locator("#state")).to_have_text("queued, attempt 1")
    launched = Run.objects.exclude(pk=run.pk).get()
    assert (launched.seed, launched.config["loss"]["type"]) == (3, "dapo")
    assert re.match("loss.type cispo → dapo", launched.revision.message)


@pytest.mark.deep
def test_back_finds_what_was_typed(page: Page, model_folder):
    page.goto("/runs/new")
    expect(page.locator("#summary")).to_contain_text("Ready to launch")
    page.get_by_label("Seeds").fill("0, 1")
    page.locator("#policies > summary").click()
    page.get_by_label("Automatic retries").fill("1")
    page.locator("#view-form > summary").click()
    page.locator("#sec-optimizer summary").click()
    with checked(page):
        page.get_by_label("Learning rate", exact=True).fill("1e-4")
    key = page.locator("[name=idempotency_key]").input_value()
    page.get_by_role("link", name="Overview").first.click()
    page.wait_for_url("**/")

    page.go_back()

    expect(page.get_by_label("Seeds")).to_have_value("0, 1")
    expect(page.get_by_label("Automatic retries")).to_have_value("1")
    expect(page.locator("#summary")).to_contain_text("0.0001")
    assert page.locator("[name=idempotency_key]").input_value() != key
    page.goto("/runs")
    page.goto("/runs/new")
    expect(page.get_by_label("Seeds")).to_have_value("0")  # a form of its own
