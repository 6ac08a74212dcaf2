"""From the address of a new installation to one's own first logged record: three clicks and one paste."""

import os
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.look import look
from tests.browser.reader import Reader

ROOT = Path(__file__).resolve().parents[2]


def test_three_clicks_and_one_paste_to_the_first_record(new_page, user, tmp_path):
    user.set_password("a-long-password")
    user.save()
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto("/")
    page.get_by_label("Username").fill(user.username)
    page.get_by_label("Password").fill("a-long-password")

    page.get_by_role("button", name="Sign in").click()
    look(page, "first-minutes")
    page.get_by_role("button", name="Show me the lines").click()
    expect(page.locator("#arrived")).to_have_text("Waiting for the first record.")
    look(page, "connect")
    page.get_by_role("button", name="Copy").click()
    lines = page.evaluate("() => navigator.clipboard.readText()")
    reader = Reader(page)
    reader.listen()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-c", lines],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=60,
    )

    expect(page.locator("#arrived")).to_contain_text("First record arrived.")
    reader.hears("First record arrived")
    look(page, "connect-arrived")
    page.get_by_role("link", name="Open first steps").click()
    expect(page.get_by_role("heading", name="first steps")).to_be_visible()
