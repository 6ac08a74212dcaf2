"""Real training, watched in a real browser: sign in, launch, points and fit arrive by themselves.

The whole stack is under it, as `make up` starts it: web server, Celery, Ray, torch; in the long form
vLLM, too.
"""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import launched
from tests.running_stack import STORY, STORY_TITLE

pytestmark = [pytest.mark.long_form, pytest.mark.stack, pytest.mark.vllm, pytest.mark.timeout(600)]

START_MS = 150_000  # the first job of a cold machine
TRAINING_MS = 240_000
POLL_MS = 300  # by default a page is asked, and drawn, sixty times a second
ENOUGH = 5  # evaluations: a fit needs them; a busy machine makes few more in this time


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One for this test, which ends with it: tests of other files come after it."""
    with launched() as browser:
        yield browser


# Evaluations on the chart that the fit uses.
NUM_FITTED = "((document.getElementById('chart').data || []).find(t => t.name === 'fitted')?.x.length ?? 0)"

# And those that the shown fit does not know yet.
NUM_WAITING = "((document.getElementById('chart').data || []).find(t => t.name === 'waiting')?.x.length ?? 0)"


def wait_for_evaluations(page: Page, number: int, milliseconds: int) -> None:
    page.wait_for_function(
        f"number => {NUM_FITTED} >= number", arg=number, timeout=milliseconds, polling=POLL_MS
    )


def test_a_launched_run_is_watched_until_its_fit(stack_with_model, open_context) -> None:
    """tests/e2e/test_story.py looks at the same run over REST."""
    page = open_context(stack_with_model.url)
    page.goto("/runs/new")
    page.get_by_label("Username").fill(stack_with_model.username)
    page.get_by_label("Password").fill(stack_with_model.password)
    page.get_by_role("button", name="Sign in").click()

    page.get_by_label("Recipe").select_option(STORY)
    expect(page.locator("aside h2")).to_have_text(STORY_TITLE)
    page.get_by_label("Seed").fill("11")
    page.get_by_label("Compute budget").fill("1")
    page.get_by_role("button", name="Launch").click()
    expect(page.get_by_role("heading", name=re.compile("ScaleRL"))).to_be_visible()
    page.evaluate("window.stayed = true")
    stack_with_model.watched.append(page.url.rstrip("/").rpartition("/")[2])

    expect(page.locator("#state")).to_have_text("running, attempt 1", timeout=START_MS)
    wait_for_evaluations(page, 1, TRAINING_MS)
    early = page.evaluate(NUM_FITTED)
    wait_for_evaluations(page, early + 3, TRAINING_MS)
    assert page.locator("#state").inner_text() == "running, attempt 1", "the points came only after the end"

    expect(page.locator("#state")).to_have_text("succeeded, attempt 1", timeout=TRAINING_MS)
    wait_for_evaluations(page, ENOUGH, 60_000)
    page.wait_for_function(f"{NUM_WAITING} === 0", timeout=60_000, polling=POLL_MS)
    drawn = page.evaluate("document.getElementById('chart').data.filter(t => t.line?.dash).length")
    assert drawn >= 2, "the fitted curve and its extrapolation"
    ceiling = page.locator("#ceiling").inner_text()
    assert re.fullmatch(r"0\.\d+|not known yet", ceiling)
    assert page.evaluate("window.stayed") is True, "the page was loaded again"

    page.get_by_role("link", name="Log", exact=True).click()
    expect(page.locator("#log")).to_contain_text("device-hours")
    page.goto("/runs")
    row = page.get_by_role("row", name=re.compile("seed 11|ScaleRL")).first
    expect(row.locator(".pill")).to_have_text("succeeded")
