"""What every page has, in a real browser: keys, palette, word of the server, unsent text."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.charts import live
from tests.browser.contexts import sign_out
from tests.browser.look import look
from webapp.interfaces.tracking.client_runs import ensure_group, make_client_run
from webapp.interfaces.tracking.models import ClientRun
from webapp.record.runs.models import Run


def test_keys_do_what_the_list_of_keys_says(page, make_run):
    make_run(0, name="one")
    page.goto("/runs")

    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("g then r")
    expect(keys).to_contain_text("Search on this page")
    look(page, "keys")
    page.keyboard.press("g")  # nothing fires while a dialog is open
    page.keyboard.press("c")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()

    page.keyboard.press("/")
    page.keyboard.type("gct?")
    expect(page.locator("#filter")).to_have_value("gct?")
    expect(keys).to_be_hidden()
    page.locator("h1").click()
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page).to_have_url(re.compile("/compare$"))


def test_the_addresses_that_mlflow_prints_lead_to_the_run_and_to_its_experiment(page, user, project):
    group = ensure_group(project, "grpo")
    made = make_client_run(group, ClientRun(client="mlflow", name="logged", start_ms=0), user=user)
    make_client_run(
        ensure_group(project, "x"), ClientRun(client="mlflow", name="apart", start_ms=0), user=user
    )

    page.goto(f"/#/experiments/0/runs/{made.key}")

    expect(page).to_have_url(re.compile(f"/runs/{made.run_id}"))
    expect(page.locator("h1")).to_contain_text("logged")
    page.goto(f"/?#/experiments/{group.pk}")
    expect(page).to_have_url(re.compile(f"/runs\\?filter=experiment(:|%3A){group.pk}$"))
    expect(page.locator("#runs")).to_contain_text("logged")
    expect(page.locator("#runs")).not_to_contain_text("apart")


def test_single_keys_can_be_switched_off(page, user):
    page.goto("/recipes")
    page.keyboard.press("?")
    page.get_by_label("Single keys do something").uncheck()
    page.keyboard.press("Escape")

    page.keyboard.press("t")

    assert page.evaluate("document.documentElement.dataset.theme") is None
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


def test_the_palette_finds_a_run_an_action_and_a_page(page, make_run):
    run = make_run(0, name="narrow batch")
    make_run(0, name="wide batch", seed=1)
    page.goto("/recipes")

    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Command")
    expect(field).to_be_focused()
    page.keyboard.type("batch narrow")
    option = page.get_by_role("option", name=re.compile("narrow batch"))
    expect(option).to_have_attribute("aria-selected", "true")
    expect(page.locator("#palette").get_by_role("option")).to_have_count(1)
    look(page, "palette")
    assert field.get_attribute("aria-activedescendant") == option.get_attribute("id")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/runs/{run.pk}$"))

    page.keyboard.press("Control+k")
    page.keyboard.type("theme")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.keyboard.press("Control+k")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.type("leaderb")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/leaderboard$"))


def test_a_server_that_goes_away_is_said_on_any_page_and_what_was_asked_comes(page, make_run):
    page.watch.expect("net::ERR", "Failed to load")
    make_run(0, name="alpha")
    make_run(0, name="beta", seed=1)
    page.goto("/runs")
    page.context.set_offline(True)

    page.locator("#filter").fill("bet")
    expect(page.locator("#banner")).to_contain_text("does not answer")
    page.context.set_offline(False)

    expect(page.locator("#banner")).to_be_hidden()
    expect(page.get_by_role("link", name="alpha", exact=True)).to_be_hidden()
    expect(page.get_by_role("link", name="beta", exact=True)).to_be_visible()
    page.goto("/tokens")
    page.context.set_offline(True)
    expect(page.locator("#banner")).to_contain_text("does not answer")
    page.context.set_offline(False)
    expect(page.locator("#banner")).to_be_hidden()


def test_a_server_that_takes_requests_and_answers_none_is_said_too(page, make_run):
    page.watch.expect("net::ERR", "aborted")
    make_run(0, name="alpha")
    page.clock.install()
    page.goto("/tokens")
    page.route("**/alive", lambda route: None)  # neither answered nor refused, as by a server that hangs

    with page.expect_request("**/alive"):
        page.clock.fast_forward(20_000)
    expect(page.locator("#banner")).to_be_hidden()
    page.clock.fast_forward(10_000)
    expect(page.locator("#banner")).to_contain_text("does not answer")

    page.unroute("**/alive")
    page.clock.fast_forward(10_000)
    expect(page.locator("#banner")).to_be_hidden()


def test_a_session_that_ended_elsewhere_is_said(page, new_page, make_run, user):
    page.watch.expect("401")
    make_run(0, name="alpha")
    page.goto("/runs")
    cookies = page.context.cookies()
    page.context.clear_cookies()

    page.locator("#filter").fill("bet")
    expect(page.locator("#banner")).to_contain_text("signed out")
    expect(page.get_by_role("heading", name="Sign in")).to_have_count(0)
    expect(page.locator("#filter")).to_have_value("bet")

    page.context.add_cookies(cookies)
    other = page.context.new_page()
    other.goto("/recipes")
    expect(page.locator("#banner")).to_be_hidden()
    sign_out(other)
    expect(page.locator("#banner")).to_contain_text("signed out")


def test_text_that_was_not_sent_is_not_lost_without_a_question(page, user):
    page.goto("/recipes/tiny-scalerl/new")
    asked = []

    def stay(dialog):
        asked.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", stay)
    page.get_by_label("Configuration").press_sequentially("# a thought\n")
    page.get_by_role("link", name="Back").click()
    page.wait_for_function("true")

    assert asked == ["beforeunload"]
    assert "/new" in page.url
    expect(page.get_by_label("Configuration")).to_have_value(re.compile("a thought"))


def test_long_waits_are_seen_and_the_server_s_refusal_is_said(page, make_run):
    page.watch.expect("500", "Failed to load")
    make_run(0, name="alpha")
    page.goto("/runs")
    held = []
    page.route("**/runs?filter=*", lambda route: held.append(route))

    page.locator("#filter").fill("bet")
    expect(page.locator("#progress-line")).to_be_visible()
    held[0].fulfill(status=500, body="")

    expect(page.locator("#progress-line")).to_be_hidden()
    expect(page.locator("#banner")).to_contain_text("could not do this (500)")
    page.unroute("**/runs?filter=*")
    page.locator("#filter").fill("alp")
    expect(page.locator("#banner")).to_be_hidden()


def test_times_are_the_reader_s_own(new_page, user, make_run):
    run = make_run(0, name="one")
    Run.objects.filter(pk=run.pk).update(created_at="2026-01-05T23:30:00Z")
    page = new_page(signed_in=user, timezone_id="Asia/Tokyo", locale="en-GB")

    page.goto("/runs")

    title = page.locator("tr time").first.get_attribute("title")
    assert re.search(r"6 Jan 2026.*08:30:00.*(GMT\+9|JST)", title)


def test_on_paper_there_is_the_page_without_its_shell_in_light_colours(new_page, user, make_run):
    page = new_page(signed_in=user, color_scheme="dark")
    page.goto(f"/runs/{make_run(20).pk}")
    live(page)
    grid = "document.getElementById('chart').layout.yaxis.gridcolor"
    dark = page.evaluate(grid)

    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")

    expect(page.locator("#chart .main-svg").first).to_be_visible()
    for gone in (".side", ".chart-tools", "#tabs .tabs"):
        expect(page.locator(gone).first).to_be_hidden()
    page.wait_for_function(f"{grid} !== '{dark}'")
    assert (
        page.evaluate("document.querySelector('#chart .main-svg').clientWidth") <= 690
    )  # as wide as A4 at most
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.wait_for_function(f"{grid} === '{dark}'")


def test_panels_on_paper_have_their_names(page, make_run):
    page.goto(f"/runs/{make_run(6).pk}")
    expect(page.locator("#panels h2 button").first).to_be_visible()

    page.emulate_media(media="print")

    expect(page.locator("#panels h2 button").first).to_be_visible()
    expect(page.locator("#patterns-help")).to_be_hidden()


@pytest.mark.parametrize("name", ["Syntax", "Columns", "More"])
def test_popups_on_a_phone_are_sheets_on_the_bar(page, make_run, name):
    make_run(0, name="one")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/runs")
    page.get_by_role("button", name=name, exact=True).click()

    sheet = page.locator("[popover]:popover-open").bounding_box()
    bar = page.locator(".side nav").bounding_box()
    assert (sheet["x"], sheet["width"]) == (0, 390)
    assert abs(sheet["y"] + sheet["height"] - bar["y"]) <= 1


def test_readers_with_colours_of_their_own_see_what_is_chosen(page, make_run):
    make_run(0, name="one")
    page.emulate_media(forced_colors="active")
    page.goto("/runs")

    here = page.locator("nav[aria-label=Pages] [aria-current]")
    outline = here.evaluate("node => getComputedStyle(node).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Control+k")
    chosen = page.locator("[role=option][aria-selected=true]")
    assert chosen.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"


def test_on_a_narrow_screen_the_pages_stand_in_a_bar_below_and_in_a_sheet(page, user):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/runs")

    bar = page.get_by_role("navigation", name="Pages")
    expect(bar.get_by_role("link")).to_have_text(["Overview", re.compile("Runs"), "Compare", "Leaderboard"])
    assert bar.bounding_box()["y"] > 780
    bar.get_by_role("button", name="More").click()
    look(page, "more")
    page.get_by_role("link", name="Reports", exact=True).click()
    expect(page.get_by_role("heading", name="Reports")).to_be_visible()


def test_the_bar_has_eight_pages_and_one_button_for_all_else(page, user):
    page.goto("/runs")

    expect(page.get_by_role("navigation", name="Pages").get_by_role("link")).to_have_count(8)
    page.get_by_role("button", name="Settings").click()
    look(page, "settings-menu")
    page.get_by_role("link", name="Members", exact=True).click()
    expect(page.get_by_role("heading", name="Members", level=1)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page).to_have_url(re.compile("/planner$"))
