"""Sharing a chart in a real browser, from the button to a stranger's page and a frame elsewhere."""

import re
from io import BytesIO

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.charts import live
from tests.browser.look import look
from tests.browser.test_run_page import open_run
from webapp.reporting.shares.models import Share


@pytest.mark.deep
def test_a_chart_is_shared_as_it_is_seen_framed_and_closed(page, new_page, make_run):
    run = make_run(30, name="ScaleRL, seed 0")
    open_run(page, run, "?cutoff=4")
    page.get_by_role("button", name="lin", exact=True).click()

    page.get_by_text("Save or share").click()
    page.get_by_role("link", name="Share", exact=True).click()
    look(page, "share-new")
    page.get_by_label("Title").fill("Where it tops out")
    page.get_by_role("button", name="Make a link").click()
    link = page.locator(".note.good code").inner_text()
    snippet = page.locator("section .copy code").inner_text()
    expect(page.locator("img.unfurled")).to_have_js_property("naturalWidth", 1200)
    look(page, "share-made")

    stranger = new_page()
    stranger.goto(link)
    live(stranger)
    expect(stranger.get_by_role("heading", name="Where it tops out")).to_be_visible()
    names = stranger.evaluate(
        "Object.fromEntries(chart.data.filter(t => t.name).map(t => [t.name, t.x.length]))"
    )
    assert names["after"] > 0
    assert stranger.evaluate("chart.layout.xaxis.type") == "linear"
    look(stranger, "shared")
    assert Image.open(BytesIO(stranger.request.get(f"{link}.png").body())).size == (1200, 630)
    stranger.goto(link.replace("/s/", "/embed/"))
    live(stranger)
    look(stranger, "embed")

    framed(stranger, snippet)
    expect(stranger.frame_locator("iframe").locator("#chart svg").first).to_be_visible()
    stranger.watch.expect("frame-ancestors", "X-Frame-Options")
    framed(stranger, snippet.replace("/embed/", "/s/"))
    expect(stranger.frame_locator("iframe").get_by_text("Where it tops out")).to_have_count(0)

    page.goto("/shares")
    look(page, "shares")
    page.get_by_role("button", name="Close Where it tops out").click()
    expect(page.get_by_role("status").filter(has_text="is closed")).to_be_visible()
    stranger.watch.expect("frame-ancestors", "X-Frame-Options", "410")
    stranger.goto(link)
    expect(stranger.get_by_role("heading", name="This link was closed")).to_be_visible()
    look(stranger, "share-closed")


def framed(page, snippet: str) -> None:
    """A page that has the snippet in it; its answer comes from here, not from the server."""
    page.unroute_all()
    page.route(
        "**/elsewhere",
        lambda route: route.fulfill(content_type="text/html", body=f"<!doctype html>{snippet}"),
    )
    page.goto("/elsewhere")


@pytest.mark.deep
def test_a_comparison_is_shared(page, new_page, make_run, published_curves):
    runs = [make_run(20, a=0.7, name="better"), make_run(20, a=0.5, seed=1, name="worse")]
    page.goto(f"/compare?run={runs[0].pk}&run={runs[1].pk}")
    page.get_by_text("Save or share").click()
    page.get_by_role("link", name="Share", exact=True).click()
    page.get_by_role("button", name="Make a link").click()

    stranger = new_page()
    stranger.goto(page.locator(".note.good code").inner_text())
    live(stranger)

    symbols = stranger.evaluate("chart.data.map(t => t.marker?.symbol).filter(Boolean)")
    assert symbols == ["circle", "square"]
    expect(stranger.get_by_text(re.compile("better, seed 0 is better than worse, seed 1"))).to_be_visible()
    look(stranger, "shared-comparison")
    assert Share.objects.get().kind == "comparison"
