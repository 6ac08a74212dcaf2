"""Every page is looked at: in light and dark, at 1440 and 390 pixels, by rules for accessibility and by a person.

Where no pictures are asked for, a page is looked at once: every second one wide and light, the others narrow and
dark; the contrast of what is drawn, of a quarter of both (tests/webapp/interfaces/pages/test_look.py has that of the
colours). `make test-deep` takes all four looks, and pictures of them into `test-artifacts/screenshots`.
HEADROOM_SCREENSHOTS asks for them, too, and says where else they go.
"""

import os
import zlib
from functools import cache
from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

from tests.deep import IS_DEEP

IS_LONG = IS_DEEP or "HEADROOM_SCREENSHOTS" in os.environ
FOLDER = Path(os.environ.get("HEADROOM_SCREENSHOTS", "test-artifacts/screenshots"))
SIZES = {"1440": {"width": 1440, "height": 900}, "390": {"width": 390, "height": 844}}
LOOKS = [("light", "1440"), ("dark", "390"), ("dark", "1440"), ("light", "390")]
SHORT = 2  # the first of them, of which a page gets one
# Of a log that is followed, for `wait_for_function`.
AT_THE_END = (
    "(log => log.scrollHeight - log.scrollTop - log.clientHeight < 24)(document.getElementById('log'))"
)
# Plotly draws 100 ms after the size of its chart has changed.
DRAWN = """new Promise((drawn) => requestAnimationFrame(
    () => setTimeout(drawn, document.querySelector(".js-plotly-plot") ? 100 : 0, true)))"""
# What a request is about to change is faded.
STILL = "!document.querySelector('.htmx-request.busy')"
# What axe does not look at: width, ids that stand twice, names of ids that are nowhere, and charts without a table or
# a sentence.
STRUCTURE = """() => {
    const all = (chosen) => [...document.querySelectorAll(chosen)];
    const found = document.documentElement.scrollWidth > innerWidth ? ["the page scrolls sideways"] : [];
    const ids = all("[id]:not(svg *)").map((node) => node.id);
    for (const [at, id] of ids.entries()) if (ids.indexOf(id) !== at) found.push(`the id ${id} stands twice`);
    const names = "for list popovertarget aria-controls aria-describedby aria-details aria-labelledby";
    for (const name of names.split(" ")) {
        const wanted = all(`[${name}]:not([type=hidden])`).map((node) => node.getAttribute(name));
        for (const id of wanted.join(" ").split(/\\s+/)) {
            if (id && !document.getElementById(id)) found.push(`${name}=${id} is nowhere`);
        }
    }
    const named = (node, name) => (node.getAttribute(name) ?? "").split(" ").map((id) => document.getElementById(id));
    const charts = ".chart, .tab-chart, .report-chart, .drawn, .bars, .parallel, .timeline[role=group]";
    const small = ".minis, .mini:has(> svg[role=img]):not(.minis .mini)";
    for (const node of all(`:is(${charts}, ${small}):not([hidden])`)) {
        const name = `the chart ${node.id || node.className}`;
        const own = document.querySelector(`[data-chart="${node.id}"] [data-values]`);
        const tables = [own, ...named(node, "aria-details")];
        const isTabled = tables.some((each) => each?.matches("[data-values], table, :has(table)"));
        if (!isTabled) found.push(`${name} has no table`);
        const labels = [...node.querySelectorAll("svg[role=img]")].map((each) => each.getAttribute("aria-label"));
        const isSaid = node.matches(small) ? labels.every((each) => /\\d/.test(each))
            : named(node, "aria-describedby").some((each) => /\\w/.test(each?.textContent));
        if (!isSaid) found.push(`${name} has no sentence`);
    }
    return [...new Set(found)];
}"""
# What axe finds, by rules that are off by default, too; null: it has to be loaded first.
VIOLATIONS = """async ([contrast, also]) => {
    if (!window.axe) return null;
    const rules = Object.fromEntries([["color-contrast", contrast], ...also.map((name) => [name, true])]
        .map(([name, enabled]) => [name, {enabled}]));
    const {violations} = await axe.run(document, {resultTypes: ["violations"], preload: false, rules});
    return violations.map(
        (rule) => `${rule.id}: ${rule.nodes.map((node) => node.target.join(" ")).slice(0, 5).join(", ")}`);
}"""


@cache
def _axe() -> str:
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def problems_of(page: Page, *also: str, contrast: bool = True) -> list[str]:
    """also: further rules of axe. `contrast` takes more than half of the time of all rules."""
    asked = [contrast, list(also)]
    found = page.evaluate(VIOLATIONS, asked)
    if found is None:
        page.evaluate(_axe())
        found = page.evaluate(VIOLATIONS, asked)
    return page.evaluate(STRUCTURE) + found


def looks_at(name: str) -> list[tuple[str, str]]:
    """Themes and widths in which the page of that name is looked at."""
    return LOOKS if IS_LONG else [LOOKS[zlib.crc32(name.encode()) % SHORT]]


def look(page: Page, name: str) -> None:
    """Fails on problems of the page as it is now; the long form takes pictures, too."""
    problems, contrast = [], IS_LONG or zlib.crc32(name.encode()) // SHORT % 4 == 0
    page.wait_for_function(STILL)
    for theme, width in looks_at(name):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size(SIZES[width])
        page.wait_for_function(DRAWN)
        if IS_LONG:
            page.screenshot(path=FOLDER / f"{name}-{width}-{theme}.png", full_page=True)
        problems += [f"{width} {theme}: {found}" for found in problems_of(page, contrast=contrast)]
    page.set_viewport_size(SIZES["1440"])
    page.emulate_media(color_scheme="light")
    assert not problems, "\n".join(problems)
