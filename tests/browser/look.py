"""Every page is looked at: in light and dark, at 1440 and 390 pixels, by rules for accessibility and by a person.

The pictures lie in `test-artifacts/screenshots` (HEADROOM_SCREENSHOTS says where else).
"""

import os
from functools import cache
from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

FOLDER = Path(os.environ.get("HEADROOM_SCREENSHOTS", "test-artifacts/screenshots"))
SIZES = {"1440": {"width": 1440, "height": 900}, "390": {"width": 390, "height": 844}}
# Of a log that is followed, for `wait_for_function`.
AT_THE_END = (
    "(log => log.scrollHeight - log.scrollTop - log.clientHeight < 24)(document.getElementById('log'))"
)
FIND_VIOLATIONS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
    (rule) => `${rule.id}: ${rule.nodes.map((node) => node.target.join(" ")).slice(0, 5).join(", ")}`)"""


@cache
def _axe() -> str:
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def look(page: Page, name: str) -> None:
    """Pictures of the page as it is in both themes and widths; fails on sideways scrolling and on axe's violations."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    problems = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for width, size in SIZES.items():
            page.set_viewport_size(size)
            page.wait_for_function(
                "new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn, 100, true)))"
            )
            page.screenshot(path=FOLDER / f"{name}-{width}-{theme}.png", full_page=True)
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                problems.append(f"{width} {theme}: the page scrolls sideways")
            page.evaluate(_axe())
            problems += [f"{width} {theme}: {found}" for found in page.evaluate(FIND_VIOLATIONS)]
    page.set_viewport_size(SIZES["1440"])
    page.emulate_media(color_scheme="light")
    assert not problems, "\n".join(problems)
