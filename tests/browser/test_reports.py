"""Writing a report in a real browser: a chart by the picker, the preview, publishing, a link, files; and two tabs."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.charts import live
from tests.browser.conftest import NARROW
from tests.browser.look import look
from webapp.reporting.reports.models import Draft, Report
from webapp.reporting.reports.services import create_report, publish
from webapp.science.decisions.services import decide


@pytest.mark.deep
def test_a_report_is_written_published_shared_and_exported(page, new_page, make_run):
    run = make_run(30, name="ScaleRL")
    make_run(24, a=0.5, seed=1, name="GRPO")
    page.goto("/reports")
    look(page, "reports-empty")

    page.get_by_role("button", name="Begin with an example").click()
    expect(page.get_by_label("Title")).to_have_value("Where this recipe tops out")
    page.get_by_label("Title").fill("Where ScaleRL bends")
    page.get_by_role("button", name="Insert").click()
    look(page, "report-insert")
    page.get_by_label("Show", exact=True).select_option("chart compare")
    page.get_by_label("Runs", exact=True).select_option([run.pk, *others_of(run)])
    page.get_by_label("Caption").fill("Both, side by side.")
    page.get_by_role("dialog").get_by_role("button", name="Insert").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value(re.compile("chart: compare"))
    expect(page.locator("#preview figcaption", has_text="Both, side by side.")).to_be_visible()
    expect(page.locator("#saved")).to_have_text(re.compile("^Saved "))
    assert Report.objects.get().text.endswith("caption: Both, side by side.\n```\n\n")
    expect(page.locator("#preview .report-chart").nth(1).locator("svg").first).to_be_visible()
    look(page, "report-edit")

    page.get_by_role("button", name="Publish").click()
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    expect(page.get_by_role("heading", name="Where ScaleRL bends", level=1)).to_be_visible()
    live(page, ".report-chart")
    look(page, "report")
    page.goto("/reports")
    look(page, "reports")

    page.get_by_role("link", name="Where ScaleRL bends").click()
    page.get_by_role("button", name="More").click()
    with page.expect_download() as found:
        page.get_by_role("link", name="Download as HTML").click()
    with open(found.value.path(), "rb") as file:
        assert file.read(20).startswith(b"<!doctype html>")
    page.get_by_role("link", name="Share by link").click()
    page.get_by_role("button", name="Make a link").click()
    look(page, "report-links")
    stranger = new_page()
    stranger.goto(page.locator(".note.good code").inner_text())
    live(stranger, ".report-chart")
    look(stranger, "report-shared")
    look(file_page(page, new_page), "report-file")


def test_a_report_is_printed_without_the_shell_and_with_its_charts(page, user, project, make_run):
    run = make_run(30, name="ScaleRL")
    text = f"## What bends\n\nWords.\n\n```headroom\nchart: run\nrun: {run.pk}\ncaption: So far.\n```\n"
    report = create_report(user=user, project=project, title="On paper", text=text)
    publish(report, user=user, base=1)
    for address in ("", "/edit"):
        page.emulate_media(media="screen")
        page.goto(f"/reports/{report.pk}{address}")
        live(page, ".report-chart")
        page.evaluate("window.print = () => { window.printed = true; }")
        page.get_by_role("button", name="More").click()
        page.get_by_role("button", name="Print, or save as PDF").click()
        assert page.evaluate("window.printed")

        page.emulate_media(media="print")

        for gone in (".side", "#more-actions", "#editor"):
            expect(page.locator(gone)).to_be_hidden()
        expect(page.get_by_role("heading", name="What bends")).to_be_visible()
        for there in ("So far.", "90 % 0."):
            expect(page.locator("figure").get_by_text(there).first).to_be_visible()
        expect(page.locator(".report-chart svg").first).to_be_visible()
        assert page.pdf(format="A4").startswith(b"%PDF-")


def test_what_is_wide_scrolls_in_its_place(new_page, user, project):
    """On a telephone neither the page nor the file grows with a long line of code or a word in a table."""
    text = f"```\n{'code ' * 60}\n```\n\n| a | b |\n|---|---|\n| {'w' * 90} | {'w' * 90} |\n"
    report = create_report(user=user, project=project, title="Wide", text=text)
    publish(report, user=user, base=1)
    page = new_page(signed_in=user, viewport=NARROW)

    page.goto(f"/reports/{report.pk}")
    expect(page.get_by_role("heading", name="Wide", level=1)).to_be_visible()
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    alone = file_page(page, lambda: new_page(viewport=NARROW))
    assert not alone.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_numbers_of_a_table_are_not_broken_up(new_page, user, project, make_run):
    run = make_run(30, name="ScaleRL")
    text = f"```headroom\ntable: parameters\nrun: {run.pk}\n```\n"
    publish(create_report(user=user, project=project, title="Narrow", text=text), user=user, base=1)
    page = new_page(signed_in=user, viewport=NARROW)

    page.goto(f"/reports/{Report.objects.get().pk}")

    expect(page.get_by_role("cell", name="ScaleRL")).to_be_visible()
    assert page.evaluate(BROKEN_WORDS) == []


BROKEN_WORDS = """() => [...document.querySelectorAll(".report-text td")].flatMap((cell) => {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
  while (walker.nextNode())
    for (const word of walker.currentNode.data.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      if (range.getClientRects().length > 1) broken.push(word[0]);
    }
  return broken;
})"""


def others_of(run):
    from webapp.record.runs.models import Run

    return list(Run.objects.exclude(pk=run.pk).values_list("pk", flat=True))


def file_page(page, new_page):
    """The exported file in a browser that can reach nothing else."""
    report = Report.objects.get()
    text = page.request.get(f"/reports/{report.pk}/report.html").text()
    alone = new_page()
    alone.route("**/alone.html", lambda route: route.fulfill(content_type="text/html", body=text))
    alone.goto("/alone.html")
    return alone


@pytest.mark.deep
def test_two_tabs_keep_both_texts(page, user, project):
    from webapp.reporting.reports.services import create_report

    report = create_report(user=user, project=project, title="Together", text="start")
    page.watch.expect("409")
    page.goto(f"/reports/{report.pk}/edit")
    other = page.context.new_page()
    other.goto(f"/reports/{report.pk}/edit")
    other.get_by_label("Text", exact=True).fill("from the other tab")
    expect(other.locator("#saved")).to_have_text(re.compile("^Saved "))

    page.get_by_label("Text", exact=True).fill("from this tab")
    expect(page.locator("#conflict")).to_be_visible()
    expect(page.get_by_label("Their text")).to_have_value("from the other tab")
    expect(page.get_by_label("Text", exact=True)).to_have_value("from this tab")
    assert Draft.objects.get(aside=True).text == "from this tab"
    look(page, "report-conflict")

    page.get_by_role("button", name="Save mine over theirs").click()
    expect(page.locator("#conflict")).to_be_hidden()
    expect(page.locator("#saved")).to_have_text(re.compile("^Saved "))
    assert Report.objects.get().text == "from this tab"
    page.goto(f"/reports/{report.pk}/history")
    look(page, "report-history")


@pytest.mark.deep
def test_decisions_from_the_run_to_the_log(page, user, project, make_run):
    run, other = make_run(16, name="ScaleRL"), make_run(12, to=6.0, a=0.7, seed=1, name="Wide")
    page.goto("/decisions")
    look(page, "decisions-empty")
    page.goto(f"/runs/{run.pk}?tab=decisions")
    look(page, "run-decisions")
    page.get_by_role("radio", name="Switch to another").check()
    page.get_by_label("Switch to", exact=True).fill("Wide, seed 1")
    page.get_by_label("Why").fill("It has bent; the wider batch climbs on.")
    page.get_by_role("button", name="Store the decision").click()
    expect(page.get_by_text(re.compile("ScaleRL, seed 0 → Wide, seed 1"))).to_be_visible()
    decide(other, user=user, kind="continue", reason="Still climbing.")
    decide(run, user=user, kind="stop", reason="Nothing more to gain.")
    page.goto("/decisions")
    look(page, "decisions")
