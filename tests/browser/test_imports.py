"""Importing in a real browser: a table, its columns, the run that it becomes with its fit; a broken file, mended."""

import pytest
from playwright.sync_api import expect

from tests.browser.charts import live
from tests.browser.conftest import NARROW
from tests.browser.look import look
from webapp.interfaces.imports.models import Import
from webapp.interfaces.imports.reading import take_turn
from webapp.record.runs.models import Run
from webapp.science.curves.services import refit


def table(rows=40, broken=None):
    """A saturating curve, as a script of somebody's writes it."""
    lines = ["iteration,gpu_hours,val_acc,val_acc_se,loss,comment"]
    for step in range(1, rows + 1):
        hours = 0.5 * step
        rate = 0.1 + 0.5 / (1 + (4.0 / hours) ** 1.5)
        value = "n/a?" if step == broken else f"{rate:.4f}"
        lines.append(f"{step},{hours},{value},0.01,{1 / step:.4f},ok")
    return "\n".join(lines).encode() + b"\n"


def file(name, content):
    return {"name": name, "mimeType": "text/csv", "buffer": content}


def test_a_table_becomes_a_run_with_a_fitted_curve(page, user, project):
    page.goto("/runs")
    page.get_by_role("link", name="import", exact=True).click()
    look(page, "imports-empty")
    page.get_by_role("link", name="Import a file").click()
    look(page, "import-new")

    page.get_by_label("File", exact=True).set_input_files(file("grpo 8b.csv", table()))
    page.get_by_label("Task").fill("math")
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("heading", name="grpo 8b.csv")).to_be_visible()
    expect(page.get_by_label("iteration")).to_have_value("step")
    expect(page.get_by_label("gpu_hours")).to_have_value("device_hours")
    expect(page.get_by_label("val_acc", exact=True)).to_have_value("pass_rate")
    expect(page.get_by_text("Is val_acc the held-out pass rate?")).to_be_visible()
    page.watch.expect("422")
    page.get_by_label("val_acc_se").select_option("pass rate")
    page.get_by_role("button", name="Import").click()
    expect(page.locator(".field-error")).to_have_text("The column val_acc is this already.")
    page.get_by_label("val_acc_se").select_option("standard error of the pass rate")
    page.get_by_label("comment").select_option("leave out")
    look(page, "import-columns")

    page.get_by_role("button", name="Import").click()
    expect(page.get_by_text("waiting", exact=True)).to_be_visible()
    assert take_turn().state == "finished"
    expect(page.locator("#import").get_by_text("finished", exact=True)).to_be_visible()
    look(page, "import-finished")
    run = Run.objects.get()
    refit(run.pk)
    page.get_by_role("link", name="grpo 8b").click()
    expect(page.get_by_role("heading", name="grpo 8b", level=1)).to_be_visible()
    live(page)
    assert run.fits.latest("pk").status == "ok"
    look(page, "import-run")


@pytest.mark.deep
def test_a_broken_file_says_where_and_a_mended_one_goes_on(page, new_page, user, project):
    page.goto("/imports/new")
    page.get_by_label("File", exact=True).set_input_files(file("dapo.csv", table(broken=20)))
    page.get_by_role("button", name="Upload").click()
    page.get_by_label("val_acc", exact=True).select_option("pass rate")
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_text("waiting", exact=True)).to_be_visible()
    take_turn()

    expect(page.get_by_role("alert")).to_contain_text("dapo.csv, line 21")
    look(page, "import-partial")
    page.get_by_label("Mended file").set_input_files(file("dapo.csv", table()))
    page.get_by_role("button", name="Read it again").click()
    expect(page.get_by_text("waiting", exact=True)).to_be_visible()
    take_turn()
    expect(page.locator("#import").get_by_text("finished", exact=True)).to_be_visible()
    assert Import.objects.get().rows_stored == 40
    page.goto("/imports")
    look(page, "imports")
    phone = new_page(signed_in=user, viewport=NARROW)
    phone.goto("/imports/new?from=server")
    look(phone, "import-server")
