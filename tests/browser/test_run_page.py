"""The run page in a real browser: chart, live points, cutoff, axes, stop, a server that goes away."""

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW
from tests.webapp.pages.data import record
from webapp.runs import ingest
from webapp.runs.models import Attempt

POINTS = "#chart .scatterlayer .trace .points path"
LIVE_SECONDS = 2.0


def open_run(page: Page, run, query: str = "") -> None:
    page.goto(f"/runs/{run.pk}{query}")
    page.wait_for_selector("#chart .main-svg")


def roles(page: Page) -> dict[str, int]:
    """How many points each trace of the chart has, by name."""
    return page.evaluate(
        "Object.fromEntries(document.getElementById('chart').data.filter(t => t.name).map(t => [t.name, t.x.length]))"
    )


def test_the_chart_draws_every_evaluation_and_the_fit(page, make_run):
    run = make_run(30)

    open_run(page, run)

    assert page.locator(POINTS).count() == 30
    assert roles(page) == {"excluded": 0, "fitted": 30, "after": 0}
    dashes = page.evaluate("document.getElementById('chart').data.map(t => t.line?.dash).filter(Boolean)")
    assert "solid" in dashes
    assert any("," in dash for dash in dashes)
    expect(
        page.locator("#chart .annotation", has_text=re.compile("ceiling 0\\.\\d+, 90 % between"))
    ).to_be_visible()


def test_a_new_evaluation_arrives_by_itself(page, make_run):
    run = make_run(30)
    open_run(page, run)
    now = page.locator("[data-text='now.value_text']")
    before = now.inner_text()

    ingest.store_records(run, [record(31, 8.5, {"eval/pass_rate": 0.512, "eval/pass_rate_stderr": 0.01})])
    stored = time.monotonic()
    page.wait_for_function(
        "document.getElementById('chart').data.find(t => t.name === 'fitted').x.length === 31"
    )
    seconds = time.monotonic() - stored

    assert seconds < LIVE_SECONDS
    assert before != now.inner_text() == "0.512"


def test_the_first_evaluation_replaces_the_empty_state(page, make_run):
    run = make_run(0)
    page.goto(f"/runs/{run.pk}")
    expect(page.locator("#chart-empty")).to_be_visible()

    ingest.store_records(
        run, [record(0, 0.0, {"eval/pass_rate": 0.2}), record(1, 0.5, {"eval/pass_rate": 0.25})]
    )

    expect(page.locator("#chart-empty")).to_be_hidden()
    expect(page.locator(POINTS).first).to_be_visible()
    expect(page.locator("#state")).to_have_text("running, attempt 1")


def test_the_cutoff_is_moved_by_keyboard_and_the_rest_is_predicted(page, make_run):
    run = make_run(30)
    open_run(page, run)
    expect(page.locator("#after")).to_be_hidden()
    handle = page.locator(".handle[data-end=cutoff]")
    handle.focus()

    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowLeft")

    expect(page.locator("#after")).to_contain_text("6 evaluations")
    assert roles(page) == {"excluded": 0, "fitted": 24, "after": 6, "residuals": 6}
    assert handle.get_attribute("aria-valuenow") == "23"
    assert "cutoff=" in page.url
    page.keyboard.press("End")
    expect(page.locator("#after")).to_be_hidden()
    assert "cutoff=" not in page.url


def test_the_cutoff_is_dragged_on_the_chart(page, make_run):
    run = make_run(30)
    open_run(page, run)
    box = page.locator(".handle[data-end=cutoff]").bounding_box()
    grip = (box["x"] + box["width"] / 2, box["y"] + 16)

    page.mouse.move(*grip)
    page.mouse.down()
    page.mouse.move(grip[0] - 60, grip[1], steps=6)
    page.mouse.up()

    expect(page.locator("#after")).to_be_visible()
    assert roles(page)["after"] > 0
    moved = page.locator(".handle[data-end=cutoff]").bounding_box()
    assert moved["x"] < box["x"] - 30


def test_early_points_are_left_out_by_the_range_input(page, make_run):
    run = make_run(30)
    open_run(page, run)

    page.locator("#lo-range").fill("3")

    expect(page.locator("#lo-words")).to_contain_text("3 of 30 left out")
    page.wait_for_function(
        "document.getElementById('chart').data.find(t => t.name === 'excluded').x.length === 3"
    )
    assert page.url.count("lo=") == 1


def test_a_link_to_a_question_opens_its_answer(page, make_run):
    run = make_run(30)

    open_run(page, run, "?x=tokens&cutoff=4000000&scale=linear")

    assert roles(page)["after"] == 15
    expect(page.locator("button[data-x=tokens]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("button[data-scale=linear]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#chart .xtitle")).to_have_text("Tokens")


def test_another_axis_is_another_question(page, make_run):
    run = make_run(30)
    open_run(page, run, "?cutoff=4")

    page.get_by_role("button", name="Steps").click()

    expect(page.locator("#chart .xtitle")).to_have_text("Steps")
    expect(page.locator("#fit-title")).to_contain_text("steps")
    assert "x=step" in page.url
    assert "cutoff" not in page.url


def test_a_server_that_goes_away_is_said_and_comes_back(page, make_run):
    page.watch.expect("Failed to load resource", "net::ERR")
    run = make_run(30)
    open_run(page, run)

    page.route("**/figure?*", lambda route: route.abort())
    expect(page.locator("#banner")).to_contain_text("does not answer")
    page.unroute("**/figure?*")

    expect(page.locator("#banner")).to_be_hidden()


def test_polling_ends_soon_after_the_run(page, make_run):
    run = make_run(30, ended="succeeded")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/figure" in request.url else None)
    page.clock.install()
    open_run(page, run)
    expect(page.locator("#state")).to_have_text("succeeded, attempt 1")

    for _ in range(7):  # a last batch may still be on its way
        with page.expect_response("**/figure?*"):
            page.clock.fast_forward(11_000)
        page.evaluate("1")
    page.clock.fast_forward(600_000)
    page.evaluate("1")

    assert len(asked) == 7


def test_stopping_asks_first(page, make_run):
    run = make_run(0)
    page.goto(f"/runs/{run.pk}")

    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Lost")
    page.get_by_role("button", name="Keep training").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop the run").click()

    expect(page.locator("#state")).to_have_text("cancelled, attempt 1")


def test_tabs_come_without_leaving_the_chart(page, make_run):
    run = make_run(10)
    Attempt.objects.filter(run=run).update(log_tail="\n".join(f"step {i}" for i in range(500)))
    open_run(page, run)
    page.evaluate("window.stayed = true")

    page.get_by_role("link", name="Log").click()

    log = page.locator("#log")
    expect(log).to_contain_text("step 499")
    assert log.evaluate("node => node.scrollHeight - node.scrollTop - node.clientHeight") < 24
    assert page.evaluate("window.stayed") is True
    assert "tab=log" in page.url


def test_the_chart_follows_the_theme(page, make_run):
    open_run(page, make_run(10))
    grid = lambda: page.evaluate("document.getElementById('chart').layout.yaxis.gridcolor")
    light = grid()

    page.emulate_media(color_scheme="dark")

    page.wait_for_function(
        "before => document.getElementById('chart').layout.yaxis.gridcolor !== before", arg=light
    )


@pytest.mark.parametrize("query", ["", "?cutoff=4&lo=1"])
def test_at_390_pixels_nothing_scrolls_sideways(new_page, user, make_run, query):
    page = new_page(signed_in=user, viewport=NARROW)

    open_run(page, make_run(30), query)

    assert page.evaluate("document.documentElement.scrollWidth") == 390
    expect(page.locator(".handle[data-end=cutoff]")).to_be_visible()
