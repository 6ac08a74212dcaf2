"""Every page in a real browser: no violation of its policy, width or ids, and nothing that makes it slow; in the long
form, none of accessibility in the dark, which the test of each page looks at, too.

The pages that no other test looks at have their pictures taken in both themes and widths.
"""

import pytest
from playwright.sync_api import expect

from tests.browser.look import IS_LONG, STRUCTURE, look, problems_of
from tests.browser.test_inside_runs import store
from tests.webapp.interfaces.pages.addresses import PAGES, WITHOUT_ACCOUNT, make_things
from tests.webapp.interfaces.pages.run.test_samples import put, row

LOOKED_AT_HERE = {"sign-in", "tokens"}
MOST_ELEMENTS = {"api-docs": 15_000}  # folded away but for a line of each operation
# What makes a page slow, as far as it is no matter of the machine; how fast pages are is measured by
# benchmarks/bench_paint.py.
SLOW = """(most) => {
    const scripts = [...document.querySelectorAll("head script[src]:not([defer], [async], [type=module])")];
    const held = scripts.map((script) => script.src).filter((src) => !src.endsWith("/theme.js"));
    const found = held.map((src) => `${src} holds up the first paint`);
    const files = performance.getEntriesByType("resource").filter((file) => /[.](js|css|svg)$/.test(file.name));
    if (files.length > 36) found.push(`${files.length} files`);
    const elements = document.querySelectorAll("*").length;
    if (elements > most) found.push(`${elements} elements`);
    return found;
}"""


def test_every_page_is_clean(page, new_page, user, make_run, published_curves):
    things = make_things(user, make_run)
    stranger = new_page()
    problems = {}
    for name, address in PAGES.items():
        where = stranger if name in WITHOUT_ACCOUNT else page
        where.emulate_media(color_scheme="dark")  # and wide: `look` looks so in its long form alone
        where.goto(address(things))
        if name in LOOKED_AT_HERE:
            look(where, name)
        elif found := problems_of(where, "target-size") if IS_LONG else where.evaluate(STRUCTURE):
            problems[name] = found
        if found := where.evaluate(SLOW, MOST_ELEMENTS.get(name, 2_500)):
            problems[name] = [*problems.get(name, []), *found]

    assert problems == {}


def test_charts_within_pages_have_a_table_and_a_sentence(page, make_run):
    run = make_run(30)
    metrics = {
        "system/node-a/host/cpu_fraction": 0.4, "perf/step_seconds": 60.0, "perf/trainer_idle": 0.3,
        "perf/generate_seconds": 40.0, "downstream/gsm8k": 0.5,
    }  # fmt: skip
    store(run, [metrics] * 3)
    for step in (10, 20):
        put(run, step, [row("a", "six", step == 20)])
    charts = {
        "machines": ".minis",
        "timeline": ".timeline svg",
        "benchmarks": ".minis",
        "forms": "#forms-chart",
    }
    places = {f"?tab={tab}": chart for tab, chart in charts.items()} | {"/samples?prompt=a": ".bars"}

    found = {}
    for place, chart in places.items():
        page.goto(f"/runs/{run.pk}{place}")
        expect(page.locator(chart).first).to_be_visible()
        found[place] = page.evaluate(STRUCTURE)

    assert {place: problems for place, problems in found.items() if problems} == {}


@pytest.mark.parametrize("signed_in", [True, False], ids=["in the shell", "alone"])
def test_pages_of_errors_teach(new_page, user, signed_in):
    page = new_page(signed_in=user if signed_in else None)
    page.watch.expect("404", "403")

    page.goto("/no/such/page")
    expect(page.get_by_role("heading", name="Nothing here")).to_be_visible()
    look(page, f"error-404-{'shell' if signed_in else 'alone'}")
    if signed_in:
        page.get_by_role("button", name="search for it").click()
        expect(page.get_by_role("combobox")).to_be_focused()


def test_a_form_without_the_sign_of_its_session(page, user):
    page.watch.expect("403")
    page.goto("/recipes/tiny-scalerl/new")
    page.context.clear_cookies(name="csrftoken")

    page.get_by_role("button", name="Store the revision").click()

    expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
    look(page, "error-403")
