"""Charts as files: what is saved is what is drawn."""

import csv
import io
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.test_run_page import open_run


def saved(page: Page, name: str) -> tuple[str, bytes]:
    """The file's name and content after the button was pressed by keyboard."""
    page.locator(".chart-tools details").last.evaluate("node => { node.open = true; }")
    button = page.get_by_role("button", name=name, exact=True)
    button.focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def corner(png: bytes) -> int:
    """How bright the picture's corner is, 0 to 765."""
    return sum(Image.open(io.BytesIO(png)).convert("RGB").getpixel((3, 3)))


def test_a_comparison_saved_says_which_curve_is_whose(page, make_run):
    steady, hasty = make_run(30, name="steady"), make_run(30, name="hasty", seed=1)
    page.goto(f"/compare?run={steady.pk}&run={hasty.pk}")
    page.wait_for_function("document.getElementById('chart').data?.length > 2")
    height = page.locator("#chart").evaluate("node => node.getBoundingClientRect().height")

    svg = saved(page, "SVG")[1]
    words = [node.text for node in ElementTree.fromstring(svg).iter() if node.get("class") == "legendtext"]
    assert sorted(words) == ["hasty, seed 1", "steady, seed 0"]
    assert Image.open(io.BytesIO(saved(page, "PNG")[1])).height > 2 * height + 20
    assert page.locator("#chart .legendtext").count() == 0  # the page has a key of its own

    rows = list(csv.DictReader(io.StringIO(saved(page, "CSV")[1].decode())))
    assert {
        f"{name}{what}"
        for name in words
        for what in ("", ", fit", ", band, lower edge", ", band, upper edge")
    } <= {row["series"] for row in rows}


@pytest.mark.deep
def test_a_chart_is_saved_as_it_is_drawn(new_page, user, make_run):
    page = new_page(signed_in=user, color_scheme="dark", permissions=["clipboard-read", "clipboard-write"])
    run = make_run(30, name='../wide: "batch" 20 % / seed 0')
    open_run(page, run, "?cutoff=4")
    width = page.locator("#chart").evaluate("node => node.getBoundingClientRect().width")

    name, png = saved(page, "PNG")
    assert name == "wide-batch-20-seed-0.png"
    assert abs(Image.open(io.BytesIO(png)).width - 2 * width) <= 2
    assert corner(png) < 200
    page.get_by_label("in light colours").check()
    assert corner(saved(page, "PNG")[1]) > 600

    name, svg = saved(page, "SVG")
    assert name.endswith(".svg")
    tree = ElementTree.fromstring(svg)
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    titles = ["".join(node.itertext()) for node in tree.iter() if node.get("class") == "gtitle"]
    assert titles == ['../wide: "batch" 20 % / seed 0 · Held-out pass rate, mean@4 · Curve']

    rows = list(csv.DictReader(io.StringIO(saved(page, "CSV")[1].decode())))
    points = [row for row in rows if row["series"] in ("fitted", "after", "excluded")]
    drawn = page.evaluate("chart.data.filter(t => ['fitted', 'after'].includes(t.name)).flatMap(t => t.y)")
    assert sorted(float(row["y"]) for row in points) == sorted(drawn)
    assert {"band, lower edge", "band, upper edge", "curve", "curve, dashed"} <= {
        row["series"] for row in rows
    }

    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"{page.url}#chart"
