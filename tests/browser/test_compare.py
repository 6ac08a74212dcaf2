"""Comparing and ranking in a real browser: choosing by search, recipes, the budget's slider, slopes, evidence."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.charts import live
from tests.browser.look import look


@pytest.fixture
def three_recipes(make_run):
    """Two recipes with two seeds each, and a single run of a third."""
    made = {
        "scalerl": [make_run(30, a=0.66, seed=seed) for seed in (0, 1)],
        "minimax": [make_run(30, a=0.6, recipe="tiny-minimax", seed=seed) for seed in (2, 3)],
        "grpo": [make_run(30, a=0.52, recipe="tiny-deepseek-grpo", seed=4)],
    }
    return {name: [run.pk for run in runs] for name, runs in made.items()}


def wait_for_traces(page, what, condition):
    """Until `condition` holds of the list `found`: `what` of each trace `t` of the chart."""
    page.wait_for_function(f"(found => {condition})(document.getElementById('chart').data.map(t => {what}))")


def drawn(page):
    live(page)
    page.wait_for_selector("#crossing script, #crossing p:not(.muted)", state="attached")
    expect(page.locator("#odds")).not_to_contain_text("…")


@pytest.mark.deep
def test_runs_are_chosen_by_search_and_compared_at_a_budget(page, make_run, published_curves):
    make_run(30, a=0.7, name="steady")
    make_run(30, a=0.5, seed=1, name="hasty", recipe="tiny-minimax")
    page.goto("/compare")
    look(page, "compare-empty")

    page.keyboard.press("/")
    page.keyboard.type("stea")
    expect(page.locator("#found a")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(".chip")).to_have_count(1)
    with page.expect_response(re.compile("q=hast")):
        page.get_by_label("Add runs, recipes or published curves").fill("hast")
    expect(page.locator("#found a")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".chip")).to_have_count(2)
    drawn(page)
    expect(page.get_by_text("steady, seed 0 is better than hasty, seed 1 at")).to_be_visible()
    expect(page.locator("#odds")).to_contain_text("It is the best there with probability above 0.99")
    look(page, "compare-two-runs")

    page.locator("#budget-range").focus()
    before = page.locator("#budget").input_value()
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    now = page.locator("#budget").input_value()
    assert float(now) < float(before)
    expect(page.locator("#odds th").nth(1)).to_contain_text(re.compile(r"^At \d"))
    expect(page).to_have_url(re.compile(rf"budget={re.escape(now)}"))
    page.locator("#budget").fill("nothing")
    page.keyboard.press("Enter")
    expect(page.locator("#odds")).to_contain_text("a number above 0 is needed")

    page.get_by_role("button", name="hasty, seed 1", exact=True).click()
    wait_for_traces(page, "t.name", "!found.includes('hasty, seed 1')")
    expect(page).to_have_url(re.compile("hide="))
    expect(page.get_by_role("link", name="Slope", exact=True)).to_have_attribute(
        "href", re.compile(rf"(?=.*hide=)(?=.*budget={re.escape(now)})")
    )
    expect(page.get_by_role("link", name="Tokens", exact=True)).to_have_attribute(
        "href", re.compile(r"^(?=.*hide=)(?!.*budget=)")
    )
    page.reload()
    live(page)
    wait_for_traces(page, "t.name", "!found.includes('hasty, seed 1')")
    page.get_by_role("button", name="hasty, seed 1", exact=True).focus()
    page.keyboard.press("Enter")
    wait_for_traces(page, "t.name", "found.includes('hasty, seed 1')")

    page.get_by_role("link", name="Slope").click()
    live(page)
    assert page.evaluate("document.getElementById('chart').layout.yaxis.title.text") == "log₁₀ F(R)"
    expect(page.get_by_text("steeper the line")).to_be_visible()
    expect(page.locator(".config-diff")).to_contain_text("seed")
    look(page, "compare-slope")
    page.get_by_role("button", name="Leave out hasty, seed 1").click()
    expect(page.locator(".chip")).to_have_count(1)


@pytest.mark.deep
def test_recipes_are_compared_with_their_seeds(page, three_recipes, published_curves):
    page.goto("/compare?" + "&".join(f"run={pk}" for pks in three_recipes.values() for pk in pks))
    live(page)
    expect(page.locator("[data-row]")).to_have_count(5)

    page.get_by_role("group", name="What a series is").get_by_role("link", name="Recipes").click()
    expect(page.locator("[data-row]")).to_have_count(3)
    drawn(page)
    expect(page.get_by_text("curve is of a single run (thin, dash-dotted)")).to_be_visible()
    wait_for_traces(page, "t.line?.dash", "found.includes('dashdot')")
    expect(page.locator("#crossing")).to_contain_text("do not cross")
    expect(page.locator(".config-diff")).to_contain_text("loss")
    page.locator("#legend button").first.hover()
    wait_for_traces(page, "t.opacity", "found.includes(0.15)")
    page.mouse.move(5, 5)
    look(page, "compare-recipes")


@pytest.mark.deep
def test_the_leaderboard_leads_to_its_evidence(page, three_recipes, make_run, published_curves):
    make_run(10, to=0.6, recipe="tiny-loo-fp32", seed=7)
    page.goto("/leaderboard")
    expect(page.locator(".lead")).to_contain_text("ScaleRL (tiny) rev 1 leads: at")
    expect(page.locator("table.board tbody tr:not(.behind)")).to_have_count(4)
    look(page, "leaderboard")

    page.get_by_role("link", name="Evidence").click()
    expect(page.get_by_text("in the order of evidence")).to_be_visible()
    page.get_by_role("button", name="fair evidence").first.click()
    expect(page.locator(".behind").first).to_contain_text("2 seeds")
    page.get_by_label("compared at").fill("4")
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="at 4.00 h")).to_be_visible()
    page.get_by_role("button", name="fair evidence").first.click()
    look(page, "leaderboard-evidence")
    page.get_by_role("link", name="With published").click()
    expect(page.get_by_text("as published").first).to_be_visible()
    look(page, "leaderboard-published")
    page.get_by_role("link", name="its 2 runs").first.click()
    expect(page.locator("[data-row]")).to_have_count(2)


def test_an_empty_leaderboard_teaches(page, published_curves):
    page.goto("/leaderboard")
    expect(page.get_by_text("No fitted run yet")).to_be_visible()
    look(page, "leaderboard-empty")
