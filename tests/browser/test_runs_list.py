"""The runs list in a real browser: filter, columns, order, saved views, actions on many, keyboard only."""

import csv
import io
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW
from tests.browser.look import look
from webapp.record.runs.models import Run
from webapp.record.savedviews.models import SavedView


@pytest.fixture
def forty(make_run):
    """Runs of two recipes: identified, not identified, failed, queued, alarming."""
    make_run(30, a=0.62, name="ScaleRL, first try", seed=1)
    make_run(30, a=0.58, name="ScaleRL, lower cap", seed=2, ended="succeeded")
    make_run(30, a=0.5, name="GRPO baseline", recipe="tiny-deepseek-grpo", seed=3, ended="succeeded")
    make_run(8, to=0.5, name="GRPO, long answers", recipe="tiny-deepseek-grpo", seed=4)
    make_run(3, name="crashed at once", seed=5, ended="failed", message="CUDA out of memory")
    make_run(0, name="waits for a GPU", seed=6)
    Run.objects.filter(name__startswith="ScaleRL").update(tags=["paper", "sweep-3"])


def names(page):
    return page.locator("table.runs td.name > a").all_inner_texts()


@pytest.mark.deep
def test_a_filter_while_typing_and_a_wrong_one_keeps_the_table(page, forty):
    page.goto("/runs")
    expect(page.locator("table.runs tbody tr")).to_have_count(6)
    look(page, "runs")

    page.keyboard.press("/")
    page.keyboard.insert_text("sta")
    expect(page.get_by_role("option", name=re.compile("^state"))).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Filter")).to_have_value("state:")
    page.keyboard.insert_text("succ")
    expect(page.get_by_role("option", name="succeeded")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(page.locator("table.runs tbody tr")).to_have_count(2)
    expect(page).to_have_url(re.compile(r"filter=state%3Asucceeded$"))

    page.keyboard.type(" ceilin > 0.55")
    expect(page.locator(".filter-error")).to_contain_text('no field “ceilin”; did you mean "ceiling"?')
    expect(page.locator(".filter-error pre")).to_have_text("state:succeeded ceilin > 0.55\n                ^")
    expect(page.locator("table.runs tbody tr")).to_have_count(2)
    look(page, "runs-wrong-filter")
    page.get_by_label("Filter").fill("state:succeeded ceiling > 0.55")
    expect(page.locator(".filter-error")).to_have_count(0)
    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    page.get_by_label("Filter").fill("tag:nothing")
    expect(page.get_by_role("heading", name="No run fits this filter")).to_be_visible()
    look(page, "runs-no-match")
    page.get_by_role("link", name="Clear the filter").click()
    expect(page.locator("table.runs tbody tr")).to_have_count(6)


@pytest.mark.deep
def test_columns_order_and_a_saved_view_from_two_tabs(page, new_page, user, forty):
    page.watch.expect("409")
    page.goto("/runs?filter=NOT+state:queued")
    page.get_by_role("link", name="Ceiling, 90 %").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("ceiling")
    assert names(page)[:3] == ["ScaleRL, first try", "ScaleRL, lower cap", "GRPO baseline"]

    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Tags").check()
    page.get_by_role("checkbox", name="Seed").uncheck()
    page.get_by_label("Settings").fill("config.loss.type")
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="loss.type")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Seed")).to_have_count(0)
    further_left = page.get_by_role("button", name="Tags further left")
    further_left.focus()
    for _ in range(2):
        page.keyboard.press("Enter")
        expect(further_left).to_be_focused()
    look(page, "runs-columns")
    page.keyboard.press("Escape")
    expect(page.locator("table.runs th").nth(-4)).to_contain_text(
        "Tags"
    )  # two columns and the setting after it
    assert "config.loss.type" in page.url

    page.get_by_role("button", name="Save as view").click()
    page.get_by_label("Name").fill("Started")
    page.get_by_label("Share it with the project").check()
    page.get_by_role("button", name="Save view").click()
    expect(page.get_by_role("link", name="Started shared")).to_have_attribute("aria-current", "page")
    assert names(page)[0] == "ScaleRL, first try"
    expect(page.get_by_role("columnheader", name="loss.type")).to_be_visible()
    look(page, "runs-saved-view")

    view = SavedView.objects.get()
    other = new_page(signed_in=user)
    other.goto(f"/runs?view={view.pk}")
    page.get_by_label("Filter").fill("ceiling > 0.55")
    expect(page.locator("table.runs tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Save changes").click()
    expect(page.get_by_text("Saved what the list shows now.")).to_be_visible()
    other.watch.expect("409")
    other.get_by_role("button", name="Rename").click()
    other.get_by_label("New name").fill("Mine")
    other.get_by_role("button", name="Rename", exact=True).last.click()
    expect(other.get_by_role("alert")).to_contain_text("changed meanwhile")
    view.refresh_from_db()
    assert (view.name, view.filter) == ("Started", "ceiling > 0.55")


@pytest.mark.deep
def test_many_runs_are_tagged_stopped_and_compared(page, forty):
    page.goto("/runs?filter=NOT+state:ended")
    page.get_by_label("Choose every run on this page").check()
    expect(page.locator("#ticked")).to_have_text("3 ticked")
    page.get_by_role("button", name="Tag", exact=True).click()
    page.locator("#bulk-tag").fill("overnight")
    page.get_by_role("button", name="Tag 3 runs").click()
    expect(page.locator("#report")).to_contain_text("3 tagged.")
    assert Run.objects.filter(tags__contains=["overnight"]).count() == 3

    page.goto("/runs")
    page.get_by_label("Choose waits for a GPU").check()
    page.get_by_label("Choose crashed at once").check()
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.locator("#bulk-dialog")
    expect(dialog).to_contain_text("1 has not started and never will, unless resumed.")
    expect(dialog).to_contain_text("1 has ended already")
    look(page, "runs-stop")
    page.get_by_role("button", name="Stop 2 runs").click()
    expect(page.locator("#report")).to_contain_text("1 stopped, 1 had already ended.")
    expect(page.locator("tr", has_text="waits for a GPU").locator(".pill").first).to_have_text("cancelled")

    page.get_by_label("Choose ScaleRL, first try").check()
    expect(page.get_by_role("button", name="Compare")).to_be_hidden()
    page.get_by_role("link", name="Age").click()
    expect(page.get_by_label("Choose ScaleRL, first try")).to_be_checked()
    page.get_by_label("Choose GRPO baseline").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?run=*&run=*")


def test_the_list_refreshes_row_by_row_and_keeps_what_is_ticked(page, make_run):
    run, other = make_run(6, name="one"), make_run(0, name="two", seed=1)
    page.goto("/runs")
    page.get_by_label("Choose one").check()
    page.evaluate(f"document.querySelector('tr[data-run=\"{other.pk}\"]').dataset.mark = 'same'")

    Run.objects.filter(pk=run.pk).update(state="succeeded", version=run.version + 1)

    expect(page.locator(f"tr[data-run='{run.pk}'] .pill")).to_have_text("succeeded")
    expect(page.get_by_label("Choose one")).to_be_checked()
    assert page.locator(f"tr[data-run='{other.pk}']").get_attribute("data-mark") == "same"
    make_run(0, name="three", seed=2)
    expect(page.get_by_role("link", name="three", exact=True)).to_be_visible()


def test_by_keyboard_alone_and_the_page_says_when_the_server_is_away(page, make_run):
    page.watch.expect("ERR_INTERNET_DISCONNECTED", "Failed to load resource")
    make_run(6, name="one")
    make_run(0, name="two", seed=1)
    page.goto("/runs")
    page.get_by_label("Choose one").focus()
    page.keyboard.press("Space")
    page.get_by_label("Choose two").focus()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Archive", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#bulk-dialog")).to_contain_text("2 have not ended and will not be archived.")
    page.keyboard.press("Escape")
    expect(page.locator("#bulk-dialog")).to_be_hidden()
    page.get_by_role("button", name="Syntax").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#filter-help")).to_be_visible()
    page.keyboard.press("Escape")

    page.context.set_offline(True)
    expect(page.locator("#banner")).to_contain_text("The server does not answer")
    page.context.set_offline(False)
    expect(page.locator("#banner")).to_be_hidden()


@pytest.mark.deep
def test_what_a_server_that_hangs_was_asked_is_asked_once_more(page, make_run):
    page.watch.expect("htmx:")
    make_run(6, name="one")
    make_run(0, name="two", seed=1)
    page.goto("/runs")
    page.evaluate("() => { htmx.config.timeout = 1500; }")
    page.route("**/runs?filter*", lambda route: None)  # never answered

    page.locator("#filter").fill("name:one")
    expect(page.locator("#banner")).to_contain_text("The server does not answer")
    page.unroute("**/runs?filter*")

    expect(page.locator("table.runs tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/runs\?filter=name%3Aone$"))


def test_empty_and_narrow(new_page, user, make_run):
    page = new_page(signed_in=user, viewport=NARROW)
    page.goto("/runs")
    expect(page.get_by_role("heading", name="No run yet")).to_be_visible()
    look(page, "runs-empty")
    make_run(6, name="a run whose name is longer than what a narrow screen can show in one line")
    page.set_viewport_size(NARROW)
    page.goto("/runs")
    page.get_by_role("button", name="Syntax").click()
    expect(page.locator("#filter-help")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_what_the_list_shows_is_saved_as_a_file(page, forty):
    page.goto("/runs?view=all")
    page.get_by_label("Filter").fill("state:succeeded")
    expect(page.locator("table.runs tbody tr")).to_have_count(2)

    with page.expect_download() as download:
        page.get_by_role("link", name="CSV", exact=True).click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))

    assert re.fullmatch(r"runs-default-\d{4}-\d\d-\d\d\.csv", download.value.suggested_filename)
    assert [row["name"] for row in rows] == names(page)
    shown = page.locator("table.runs tbody tr").first.locator("td.num strong").inner_text()
    assert f"{float(rows[0]['ceiling']):.{len(shown) - 2}f}" == shown
