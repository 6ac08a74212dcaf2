"""The work of a researcher with keys and a screen reader alone: launch, watch, compare, freeze, review."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW
from tests.browser.reader import Reader
from tests.members import member
from tests.webapp.interfaces.pages.addresses import make_prediction
from tests.webapp.interfaces.pages.data import record
from webapp.identity.accounts.models import Role
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.models import Run
from webapp.reporting.alarms.services import judge_run
from webapp.science.curves.services import refit


@pytest.fixture
def reader(page) -> Reader:
    return Reader(page)


def drawn(reader: Reader, chart: str = "chart") -> None:
    reader.page.wait_for_selector(f"#{chart} svg")


def test_launch(reader, model_folder):
    reader.goto("/runs")
    assert reader.tab_to("link", "^To the content").name
    reader.press("Enter")
    reader.tab_to("link", "^Launch a run")
    reader.press("Enter")
    expect(reader.page.get_by_role("heading", name="Launch a run")).to_be_visible()
    reader.listen()

    recipe = reader.tab_to("combobox", "^Recipe")
    title = reader.page.locator("aside h2").inner_text()
    reader.press("ArrowDown")
    expect(reader.page.locator("aside h2")).not_to_have_text(title)
    assert reader.stop() == recipe  # the form came anew, the focus stayed
    expect(reader.page.locator(".htmx-request, .htmx-swapping, .htmx-settling, .htmx-added")).to_have_count(0)
    reader.press("ArrowUp")
    expect(reader.page.locator("aside h2")).to_have_text(title)
    budget = reader.tab_to("textbox", "^Compute budget")
    reader.press("Control+a")
    reader.type("-1")
    reader.hears("to mend.*budget")
    assert reader.stop() == budget
    reader.forget()
    reader.press("Control+a")
    reader.type("0.5")
    reader.hears("Ready to launch")
    reader.tab_to("searchbox", "Search the settings")
    reader.type("optimizer.lr")
    reader.tab_to("textbox", "^Learning rate")
    reader.press("Control+a")
    reader.type("1e-4")
    expect(reader.page.locator("#generated")).to_have_text("optimizer.lr 8e-5 → 0.0001")
    reader.tab_to("button", "^Launch$")
    reader.press("Enter")

    expect(reader.page.locator("#state")).to_have_text("queued, attempt 1")
    assert Run.objects.get().config["optimizer"]["lr"] == 1e-4


@pytest.mark.deep
def test_watch(reader, make_run):
    run = make_run(30, name="steady")
    reader.goto(f"/runs/{run.pk}")
    drawn(reader)
    reader.press("Tab")
    reader.press("Enter")  # to the content
    link = reader.tab_to("button", "^Truncation rate")

    values = {"eval/pass_rate": 0.6, "train/truncation_rate": 0.3}
    ingest.store_records(run, [record(seq, 8.5, values) for seq in (31, 32, 33)])
    judge_run(run.pk)
    refit(run.pk)
    reader.hears("^Tops out at")
    reader.hears("truncation rate 30 %")
    reader.page.wait_for_function(
        "document.querySelector('#metric-train-truncation_rate').textContent.includes('30 %')"
    )
    assert reader.stop().name.startswith(link.name[:10])  # its panel came anew

    last = reader.tab_to("slider", "^Fit up to|^Last evaluation", key="Shift+Tab")
    assert last.name
    reader.forget()
    reader.press("PageDown", "PageDown")
    reader.hears("after the cutoff|evaluations,")
    reader.stop()
    reader.tab_to("DisclosureTriangle", "^Table")
    reader.press("Enter")
    values = reader.page.get_by_role("region", name="Values of this chart")
    expect(values.get_by_role("row").nth(5)).to_be_visible()
    reader.tab_to("region", "^Values of this chart")
    for tab in ("Forms", "Attempts"):
        reader.tab_to("link", f"^{tab}")
        reader.press("Enter")
        expect(reader.page.get_by_role("link", name=tab)).to_have_attribute("aria-current", "page")
        assert reader.stop().name.startswith(tab)
        if tab == "Forms":
            reader.hears(re.escape(reader.page.locator("#forms-said").inner_text()))
    reader.forget()
    lifecycle.report_finished(run, attempt=1, state="succeeded", message="")
    reader.hears("succeeded")


@pytest.mark.deep
def test_compare(reader, make_run, published_curves):
    steady, _ = make_run(30, a=0.7, name="steady"), make_run(30, a=0.5, seed=1, name="hasty")
    reader.goto("/runs")
    reader.tab_to("checkbox", "hasty")
    reader.press("Space")
    reader.hears("1 ticked")
    ingest.store_records(steady, [record(31, 8.5, {"eval/pass_rate": 0.7})])
    reader.tab_to("checkbox", "steady")
    reader.press("Space")
    reader.hears("2 ticked")
    ingest.store_records(steady, [record(32, 8.75, {"eval/pass_rate": 0.7})])
    reader.page.wait_for_function("document.querySelector('table.runs').textContent.includes('8.75')")
    assert "steady" in reader.stop().name  # its row came anew
    reader.tab_to("link", "^Compute|^Run$", key="Shift+Tab")
    reader.press("Enter")
    expect(reader.page).to_have_url(re.compile("sort="))
    reader.stop()
    reader.tab_to("button", "^Compare", key="Shift+Tab")
    reader.press("Enter")
    drawn(reader)
    reader.listen()

    reader.tab_to("searchbox", "^Add runs")
    reader.type("zzz")
    reader.hears("Nothing matches")
    reader.press("Escape")
    toggle = reader.tab_to("button", "^hasty")
    reader.press("Space")
    expect(reader.page.get_by_role("button", name=toggle.name, exact=True)).to_have_attribute(
        "aria-pressed", "false"
    )
    reader.tab_to("slider", "^Budget")
    reader.forget()
    reader.press("ArrowLeft", "ArrowLeft")
    reader.hears("steady.*0[.]\\d")
    reader.stop()


@pytest.mark.deep
def test_freeze(reader, make_run):
    run = make_run(30, name="steady", budget_hours=16.0)
    reader.goto(f"/runs/{run.pk}")
    drawn(reader)
    reader.tab_to("link", "^Freeze as a prediction")
    reader.press("Enter")
    drawn(reader, "preview-chart")
    reader.listen()

    target = reader.tab_to("textbox", "^Target compute")
    reader.press("Control+a")
    reader.type("4")
    reader.hears("before the data")
    reader.press("Control+a")
    reader.type("12")
    reader.hears("at 12[.]0 device-hours")
    assert reader.stop() == target
    reader.tab_to("button", "^Freeze it")
    reader.page.watch.expect("422")
    reader.press("Enter")
    reader.page.wait_for_selector("[aria-invalid=true]")
    assert reader.stop().name.startswith("Reasons")  # where something is missing
    reader.type("It has bent.")
    reader.tab_to("button", "^Freeze it")
    reader.press("Enter")
    expect(reader.page.get_by_role("heading", level=1)).to_contain_text("at 12.0 device-hours")


@pytest.mark.deep
def test_review(new_page, user, project, make_run):
    prediction = make_prediction(user, make_run(30, name="steady", budget_hours=16.0))
    grace = member("grace", project=project, role=Role.REVIEWER)
    page = new_page(signed_in=grace)
    page.watch.expect("422")
    reader = Reader(page)
    reader.goto(f"/predictions/{prediction.pk}")
    drawn(reader)

    reader.tab_to("textbox", "^Comment")
    reader.type("Is this the bend?")
    reader.tab_to("button", "^Comment")
    reader.press("Enter")
    expect(page.locator(".thread")).to_have_count(1)
    reader.stop()
    reader.tab_to("link", "^Forms")
    reader.press("Enter")
    expect(page.get_by_role("link", name="Forms", exact=True)).to_have_attribute("aria-current", "page")
    assert reader.stop().name == "Forms"
    reader.tab_to("radio", "^Approve", key="Shift+Tab")
    reader.press("ArrowDown")
    asks = reader.stop()
    assert asks.name.startswith("Ask for changes")
    reader.tab_to("button", "^Give the verdict")
    reader.press("Enter")
    reader.page.wait_for_selector("#review-error")
    assert reader.stop().name.startswith("Reason")  # where the mistake is
    reader.type("Too narrow.")
    reader.tab_to("button", "^Give the verdict")
    reader.press("Enter")
    expect(page.locator("#verdicts")).to_contain_text("changes asked")


def test_a_filter_that_sends_itself_keeps_the_focus(reader, user, make_run):
    make_prediction(user, make_run(30, name="steady", budget_hours=16.0))
    reader.goto("/predictions")
    order = reader.tab_to("combobox", "^Order")

    reader.press("ArrowDown")
    expect(reader.page).to_have_url(re.compile("sort="))

    assert reader.stop().name == order.name


def test_the_menus_on_a_narrow_screen(new_page, user, model_folder):
    page = new_page(signed_in=user, viewport=NARROW)
    reader = Reader(page)
    reader.goto("/runs/new")
    reader.tab_to("button", "^More")
    reader.press("Enter")
    reader.tab_to("link", "^Reports")
    reader.press("Escape")
    assert reader.stop().name == "More"
    reader.tab_to("button", "^Save as draft")  # nothing on the way lies below the bar
