"""A reader who has keys and a screen reader only: where the focus goes, what it is called, what is read out."""

import re
import time
from dataclasses import dataclass

from playwright.sync_api import Page

from tests.browser.contexts import PATIENCE_MS

MOST_STOPS = 90  # more presses of Tab than any walk needs
# The focus, and what is wrong with it: nowhere, out of sight, below something else, or without a ring.
FOCUS = """() => {
    const node = document.activeElement;
    if (!node || node === document.body) return ["the focus is nowhere"];
    const box = node.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const [left, right] = [Math.max(0, box.left), Math.min(innerWidth, box.right)];
    const [top, bottom] = [Math.max(0, box.top), Math.min(innerHeight, box.bottom)];
    if (right - left < 1 || bottom - top < 1) return ["it is out of sight"];
    const places = [[x, y], [(left + right) / 2, (top + bottom) / 2], [left + 3, top + 3], [right - 3, bottom - 3]];
    const seen = places.some(([px, py]) => {
        const there = document.elementFromPoint(px, py);
        return there && (node.contains(there) || there.contains(node) && getComputedStyle(there).position !== "fixed");
    });
    const ringed = (style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    const next = node.nextElementSibling;
    const rings = [getComputedStyle(node), getComputedStyle(node, "::after")];
    if (next) rings.push(getComputedStyle(next));
    return [...(seen ? [] : ["it is below something else"]), ...(rings.some(ringed) ? [] : ["it has no ring"])];
}"""
# From now on `window.heard` has what a screen reader reads out: what changes in live regions that are there already,
# and alerts that come.
LISTEN = """() => {
    window.heard = [];
    const regions = "[aria-live=polite], [aria-live=assertive], [role=status], [role=alert]";
    const words = (node) => node.textContent.replace(/\\s+/g, " ").trim();
    new MutationObserver((changes) => {
        const fresh = new Set(changes.flatMap((change) => [...change.addedNodes]));
        const found = new Set();
        for (const { target } of changes) {
            const region = (target.nodeType === 1 ? target : target.parentElement)?.closest(regions);
            if (region && ![...fresh].some((node) => node.contains(region))) found.add(region);
        }
        for (const node of fresh) {
            if (node.nodeType !== 1) continue;
            if (node.matches("[role=alert]")) found.add(node);
            for (const alert of node.querySelectorAll("[role=alert]")) found.add(alert);
        }
        for (const region of found) if (region.checkVisibility() && words(region)) window.heard.push(words(region));
    }).observe(document.body, { subtree: true, childList: true, characterData: true, attributeFilter: ["hidden"] });
}"""


@dataclass(frozen=True)
class Stop:
    """An element with the focus, as the accessibility tree has it."""

    role: str
    name: str
    problems: tuple[str, ...]


class Reader:
    """Presses keys on a page; every stop has a role and a name, is in sight and shows that it has the focus."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._wire = page.context.new_cdp_session(page)

    def goto(self, address: str) -> None:
        self.page.goto(address)
        self.listen()

    def listen(self) -> None:
        self.page.evaluate(LISTEN)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)

    def tab_to(self, role: str, name: str, *, key: str = "Tab") -> Stop:
        """Press `key` until an element of this role has the focus whose name matches."""
        passed = []
        for _ in range(MOST_STOPS):
            self.press(key)
            stop = self._look()
            if "the focus is nowhere" in stop.problems:
                break  # past the last element of the page
            stop = self.stop()
            passed.append(f"{stop.role} {stop.name!r}")
            if stop.role == role and re.search(name, stop.name):
                return stop
        raise AssertionError(f"no {role} {name!r} after: {'; '.join(passed)}")

    def stop(self) -> Stop:
        """Where the focus is now; AssertionError where that is no place for it."""
        stop = self._look()
        assert not stop.problems, f"{stop.role} {stop.name!r}: {', '.join(stop.problems)}"
        assert stop.name, (
            f"a {stop.role} without a name: {self.page.evaluate('document.activeElement.outerHTML')[:300]}"
        )
        return stop

    def _look(self) -> Stop:
        """Where the browser has not worked out yet what has the focus, as after a swap, it is asked again."""
        until = time.monotonic() + PATIENCE_MS / 1000
        while (stop := self._see()).role in ("", "none") and not stop.problems and time.monotonic() < until:
            self.page.wait_for_timeout(50)
        return stop

    def _see(self) -> Stop:
        problems = tuple(self.page.evaluate(FOCUS))
        found = self._wire.send("Runtime.evaluate", {"expression": "document.activeElement"})["result"]
        tree = self._wire.send(
            "Accessibility.getPartialAXTree", {"objectId": found["objectId"], "fetchRelatives": False}
        )
        node = tree["nodes"][0]
        return Stop(
            node.get("role", {}).get("value", ""), node.get("name", {}).get("value", "").strip(), problems
        )

    def hears(self, pattern: str) -> None:
        """Wait until something that matches was read out since the page came, or since `forget`."""
        said = re.compile(pattern, re.IGNORECASE | re.DOTALL)
        until = time.monotonic() + PATIENCE_MS / 1000
        while not any(map(said.search, heard := self.heard())):
            assert time.monotonic() < until, f"{pattern!r} was not read out, but {heard}"
            self.page.wait_for_timeout(50)

    def heard(self) -> list[str]:
        """What was read out so far."""
        return self.page.evaluate("window.heard ?? []")

    def forget(self) -> None:
        self.page.evaluate("() => { window.heard.length = 0; }")
