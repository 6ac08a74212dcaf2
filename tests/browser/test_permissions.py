"""Tokens, and what a reader of low role sees, in a real browser."""

import pytest
from playwright.sync_api import expect

from tests.browser.look import look
from tests.members import member
from webapp.identity.accounts.models import ApiToken
from webapp.identity.accounts.services import create_token, default_project
from webapp.record.runs import lifecycle


@pytest.fixture
def tokens(user, transactional_db):
    """Some of Ada's and of another member's, in each state."""
    project, bob = default_project(), member("bob", role="contributor")
    create_token(user=user, project=project, scope="launch", name="sweeps from the notebook")
    create_token(user=user, project=project, scope="read", name="dashboard", days=30)
    create_token(user=user, project=project, scope="read", name="last year's", days=1)
    ApiToken.objects.filter(name="last year's").update(expires_at="2026-01-01T00:00:00Z")
    create_token(user=bob, project=project, scope="write", name="trainer on node 3", days=90)


def test_a_token_is_made_copied_and_revoked(page, tokens):
    page.goto("/tokens")
    look(page, "tokens")

    page.get_by_label("Name").fill("nightly")
    page.get_by_label("May do").select_option("write")
    expect(page.get_by_label("Valid for")).to_have_value("90")
    page.get_by_role("button", name="Make a token").click()
    expect(page.get_by_text("Copy the token now")).to_be_visible()
    look(page, "tokens-made")

    row = page.get_by_role("row", name="nightly")
    row.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("The token is revoked")).to_be_visible()
    expect(page.get_by_role("row", name="nightly")).to_contain_text("revoked")


def test_no_token_yet(page):
    page.goto("/tokens")

    expect(page.get_by_role("heading", name="No token yet")).to_be_visible()
    look(page, "tokens-empty")


def test_a_viewers_pages(new_page, transactional_db, make_run):
    run = make_run()
    lifecycle.report_finished(run, attempt=1, state="failed", message="out of memory")
    page = new_page(signed_in=member("vic", role="viewer"))
    page.watch.expect("403")  # the browser's console notes the refused page

    page.goto(f"/runs/{run.pk}")
    expect(page.locator("#state")).to_contain_text("failed")
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    page.goto("/runs")
    expect(page.locator("#tick-page")).to_have_attribute("title", "Tick runs to compare them")
    look(page, "runs-viewer")
    page.get_by_role("checkbox", name="Choose every run on this page").check()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    page.goto("/runs/new")
    expect(page.get_by_text("This needs the role launcher in this project; yours is viewer.")).to_be_visible()
    look(page, "refused")


def test_a_viewers_empty_pages(new_page, transactional_db):
    page = new_page(signed_in=member("vic", role="viewer"))

    for address, name in (
        ("/", "overview"),
        ("/runs", "runs"),
        ("/studies", "studies"),
        ("/shares", "shares"),
    ):
        page.goto(address)
        look(page, f"{name}-empty-viewer")
