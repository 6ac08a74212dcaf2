"""The other pages in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.charts import live
from tests.browser.conftest import NARROW
from tests.browser.contexts import sign_out
from tests.members import member
from webapp.record.runs.models import Run


def test_signing_in_by_hand(new_page, transactional_db):
    member("grace", password="a-long-password")
    page = new_page()

    page.goto("/recipes")
    page.get_by_label("Username").fill("grace")
    page.get_by_label("Password").fill("a-long-password")
    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("heading", name="Recipes")).to_be_visible()
    sign_out(page)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_launching_from_the_form(page, model_folder):
    page.watch.expect("422")  # the browser's console notes the refused form
    page.goto("/runs/new")

    page.get_by_label("Recipe").select_option("tiny-minimax")
    expect(page.locator("aside h2")).to_have_text("MiniMax (tiny)")
    page.get_by_label("Compute budget").fill("0")
    page.get_by_role("button", name="Launch").click()
    expect(page.locator("#id_budget_hours_error")).to_be_visible()
    expect(page.get_by_label("Recipe")).to_have_value("tiny-minimax")
    page.get_by_label("Compute budget").fill("0.5")
    page.get_by_role("button", name="Launch").click()

    expect(page.locator("#state")).to_have_text("queued, attempt 1")
    assert Run.objects.get().revision.recipe.slug == "tiny-minimax"


def test_the_filter_works_while_typing_and_lives_in_the_url(page, make_run):
    make_run(0, name="alpha")
    make_run(0, name="beta", seed=1)
    page.goto("/runs")

    page.keyboard.press("/")
    page.keyboard.type("bet")

    expect(page.get_by_role("link", name="alpha", exact=True)).to_be_hidden()
    expect(page.get_by_role("link", name="beta", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(r"/runs\?filter=bet$"))
    page.goto("/recipes")
    page.go_back()
    expect(page.locator("nav[aria-label=Pages]")).to_be_visible()
    expect(page.get_by_role("link", name="beta", exact=True)).to_be_visible()


def test_comparing_draws_each_run_and_the_choice_can_change(page, make_run, published_curves):
    runs = [make_run(20, a=0.7, name="better"), make_run(20, a=0.5, seed=1, name="worse")]
    page.goto(f"/compare?run={runs[0].pk}&run={runs[1].pk}")
    live(page)
    symbols = page.evaluate(
        "document.getElementById('chart').data.map(t => t.marker?.symbol).filter(Boolean)"
    )
    assert symbols[:2] == ["circle", "square"]

    page.get_by_role("button", name="Leave out worse").click()
    expect(page.locator(".chip")).to_have_count(1)
    page.get_by_label("Add runs, recipes or published curves").fill("ScaleRL-32k")
    page.locator("#found a", has_text="ScaleRL-32k").click()
    expect(page.locator(".chip")).to_have_count(2)
    page.get_by_role("link", name="Share of the gain").click()

    live(page)
    dashes = page.evaluate("document.getElementById('chart').data.map(t => t.line?.dash).filter(Boolean)")
    assert "2px,3px" in dashes  # the published one


def test_the_leaderboard_shows_published_curves_on_demand(page, make_run, published_curves):
    make_run(30)
    page.goto("/leaderboard")
    expect(page.locator("svg.whisker")).to_have_count(1)

    page.get_by_role("link", name="With published").click()
    expect(page.get_by_text("as published").first).to_be_visible()
    page.get_by_label("compared at").fill("4")
    page.keyboard.press("Enter")

    expect(page.get_by_role("columnheader", name="at 4.00 h").first).to_be_visible()
    assert "published=1" in page.url


def test_the_theme_follows_the_system_until_one_is_chosen(new_page, user):
    page = new_page(signed_in=user, color_scheme="dark")
    paper = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.goto("/runs")
    dark = paper()

    page.locator(".account-toggle").click()
    page.get_by_role("button", name="Theme: system").click()
    light = paper()
    assert light != dark
    page.reload()
    assert paper() == light
    page.locator(".account-toggle").click()
    page.get_by_role("button", name="Theme: light").click()
    assert paper() == dark


def test_a_token_is_copied(new_page, user):
    page = new_page(signed_in=user, permissions=["clipboard-read", "clipboard-write"])
    page.goto("/tokens")

    page.get_by_role("button", name="Make a token").click()
    token = page.locator(".note code").inner_text()
    page.locator(".note").get_by_role("button", name="Copy").click()
    expect(page.locator(".note").get_by_role("button")).to_have_text("Copied")

    assert token.startswith("hr_")
    assert page.evaluate("navigator.clipboard.readText()") == token


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.deep), "dark"])
def test_at_390_pixels_nothing_scrolls_sideways(new_page, user, make_run, published_curves, scheme):
    run = make_run(30, name="a run whose name is longer than what a narrow screen can show in one line")
    make_run(0, seed=1)
    page = new_page(signed_in=user, viewport=NARROW, color_scheme=scheme)
    paths = [
        "/", "/runs", "/runs/new", f"/compare?run={run.pk}&ref=scalerl", "/leaderboard?published=1", "/recipes",
        "/recipes/tiny-scalerl", "/recipes/tiny-scalerl/new", "/tokens", f"/runs/{run.pk}?tab=configuration",
        f"/runs/{run.pk}?tab=attempts",
    ]  # fmt: skip

    for path in paths:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") == 390, path


def test_everything_on_the_list_is_reached_by_keyboard(page, make_run):
    make_run(6, name="one")
    page.goto("/runs")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.name || document.activeElement.textContent.trim()")
        )

    for wanted in ("To the content", "Launch a run", "filter", "run", "one"):
        assert wanted in reached, (wanted, reached)
