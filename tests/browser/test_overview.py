"""The overview in a real browser: empty, with every kind of run, and live."""

import re
from datetime import timedelta

from django.core.cache import cache
from django.utils import timezone
from playwright.sync_api import Page, expect

from benchmarks.bench_paint import OBSERVE
from tests.browser.conftest import NARROW
from tests.browser.look import look
from tests.webapp.interfaces.pages.data import record
from webapp.record.runs import ingest
from webapp.record.runs.models import Run
from webapp.reporting.alarms.services import judge_run


def test_an_empty_overview_teaches(page: Page, project):
    page.goto("/")
    expect(page.get_by_role("heading", name="Launch a tiny run")).to_be_visible()
    expect(page.locator("#o-health")).to_contain_text("No Ray cluster is known")

    look(page, "overview-empty")


def test_nothing_moves_when_the_cluster_is_asked(page: Page, make_run):
    make_run(30, name="a run")
    cache.clear()
    page.add_init_script(OBSERVE)
    with page.expect_response(lambda response: "seen=" in response.url):
        page.goto("/")
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 0)))")

    assert page.evaluate("window.__shifts") == []


def test_the_overview_lives(page: Page, make_run):
    cache.clear()
    runs = [
        make_run(30, a=0.72, name="ScaleRL, long horizon"),
        make_run(12, a=0.6, to=1.0, seed=1, recipe="tiny-minimax", name="MiniMax"),
        make_run(0, seed=2, name="ScaleRL, waits"),
        make_run(30, a=0.55, seed=3, recipe="tiny-deepseek-grpo", name="DeepSeek GRPO", ended="succeeded"),
        make_run(9, seed=4, name="ScaleRL, broke", ended="failed", message="CUDA out of memory in rank 3"),
        make_run(0, seed=5, name="ScaleRL, never began", ended="failed", message="no model named base"),
    ]
    Run.objects.filter(pk=runs[0].pk).update(started_at=timezone.now() - timedelta(hours=3))
    ingest.store_records(
        runs[0], [record(i, 8 + i / 100, {"train/truncation_rate": 0.2}) for i in range(40, 60)]
    )
    judge_run(runs[0].pk)
    page.goto("/")
    expect(page.locator("#o-running tbody tr")).to_have_count(2)
    expect(page.locator("#o-health")).to_contain_text("No Ray cluster is known")
    look(page, "overview")
    page.evaluate("window.stayed = document.getElementById('o-leaders').firstElementChild")

    Run.objects.filter(pk=runs[1].pk).update(
        state="failed", ended_at=timezone.now(), state_reason="node lost"
    )

    expect(page.locator("#o-ended")).to_contain_text("node lost")
    expect(page.locator("#o-running tbody tr")).to_have_count(1)
    assert page.evaluate("window.stayed.isConnected"), "what did not change was not touched"


def test_columns_of_recipes_stay_while_rows_come(page: Page, make_run):
    make_run(30)
    page.goto("/recipes")
    widths = "[...document.querySelectorAll('#recipes thead th')].map((cell) => cell.getBoundingClientRect().width)"
    of_all = page.evaluate(widths)
    page.evaluate("[...document.querySelectorAll('#recipes tbody tr')].forEach((row) => row.remove())")

    assert page.evaluate(widths) == of_all


def test_on_a_phone_names_of_recipes_have_room_beside_their_ceilings(new_page, user, make_run):
    make_run(30, name="steady")
    page = new_page(signed_in=user, viewport=NARROW)
    page.goto("/recipes")
    expect(page.locator("#recipes .scale-ends")).to_be_visible()

    left, ends, right = (
        page.evaluate("""[...document.querySelectorAll('#recipes thead th')].filter((cell) => cell.offsetWidth)
        .map((cell) => cell.getBoundingClientRect()).flatMap((box, at) => at ? [box.left, box.right] : [box.width])""")
    )

    assert left > 120 and right - ends > 120 and right > 340
    edges = "marks => marks.map((mark) => mark.getBoundingClientRect().right)"
    assert max(page.locator("#recipes :is(.whisker, .scale-ends)").evaluate_all(edges)) <= right
    page.goto("/runs")
    latest = page.get_by_role("columnheader", name="Latest").bounding_box()
    assert latest["x"] + latest["width"] <= NARROW["width"], "the pass rate is seen without scrolling"


def test_recipes_are_searched(page: Page, make_run):
    make_run(30)
    page.goto("/recipes")
    look(page, "recipes")

    page.keyboard.press("/")
    page.keyboard.type("tiny minimax")
    expect(page.locator("#recipes tbody td a strong")).to_have_text(["MiniMax (tiny)"])
    expect(page).to_have_url(re.compile("q=tiny(%20|[+])minimax"))
    page.goto("/recipes/tiny-scalerl")
    look(page, "recipe")
