"""Screenshots of every page of a running stack, at 1440 and 390 pixels, light and dark.

.venv/bin/python scripts/screenshots.py http://127.0.0.1:8000 USER PASSWORD OUT_FOLDER
"""

import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = {1440: 900, 390: 844}


def main() -> None:
    url, user, password, out = sys.argv[1:]
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for width, height in WIDTHS.items():
            for scheme in ("light", "dark"):
                shoot(browser, url, user, password, folder, width, height, scheme)
        browser.close()


def shoot(browser: Browser, url, user, password, folder: Path, width: int, height: int, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{url}/")
    save(page, folder, "sign-in", width, scheme)
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.press("input[name=password]", "Enter")
    page.wait_for_selector("main h1")
    save(page, folder, "runs", width, scheme)
    for name, path in pages(page).items():
        page.goto(url + path)
        page.wait_for_timeout(900)  # charts draw
        save(page, folder, name, width, scheme)
    context.close()


def pages(page: Page) -> dict[str, str]:
    """Name -> path of each page, with the newest runs where a page needs some."""
    links = page.eval_on_selector_all("a[href^='/runs/']", "links => links.map(a => a.getAttribute('href'))")
    runs = [path for path in dict.fromkeys(links) if path.count("/") == 2 and path != "/runs/new"]
    found = {
        "launch": "/runs/new",
        "leaderboard": "/leaderboard",
        "recipes": "/recipes",
        "tokens": "/tokens",
    }
    found |= {"recipe": "/recipes/tiny-scalerl"}
    for position, path in enumerate(runs[:2], start=1):
        found[f"run-{position}"] = path
        found[f"run-{position}-log"] = f"{path}?tab=log"
    ids = "&".join(f"run={path.split('/')[2]}" for path in runs[:2])
    return found | {"compare": f"/compare?{ids}", "compare-share": f"/compare?{ids}&ref=scalerl&view=share"}


def save(page: Page, folder: Path, name: str, width: int, scheme: str) -> None:
    page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)


if __name__ == "__main__":
    main()
