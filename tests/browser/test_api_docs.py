"""/api/docs in a real browser, for a reader who is not signed in."""

import pytest
from playwright.sync_api import expect

from tests.browser.look import look


@pytest.mark.deep
def test_the_api_for_people(new_page, user):
    page = new_page()
    page.goto("/api/docs")
    expect(page.get_by_role("heading", name="API", exact=True)).to_be_visible()

    page.get_by_role("navigation", name="Contents").get_by_role("link", name="Exports").click()
    page.locator("#exports_export_run summary").click()
    page.locator("#runs_post_records summary").click()

    expect(page.locator("#exports_export_run").get_by_text("superseded", exact=True)).to_be_visible()
    expect(page.locator("#runs_post_records").get_by_text("Report a batch of records")).to_be_visible()
    look(page, "api-docs")


def test_a_link_to_a_shape_opens_it(new_page, user):
    page = new_page()
    page.goto("/api/docs")

    page.locator("#runs_get_run summary").click()
    page.locator("#runs_get_run").get_by_role("link", name="RunDetail").click()

    expect(page.locator("#shape-RunDetail").get_by_role("cell", name="attempts", exact=True)).to_be_visible()


def test_the_shell_leads_there(page):
    page.goto("/tokens")

    page.get_by_role("link", name="examples").click()

    expect(page.get_by_role("heading", name="API", exact=True)).to_be_visible()
