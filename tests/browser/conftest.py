"""A real Chromium on a real server (Django's live server on the tests' PostgreSQL).

Without a Chromium the tests are skipped, or fail where REQUIRE_BROWSER=1. Every page is watched: an error on its
console, or a request that leaves the server, fails the test.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.contexts import PATIENCE_MS, Watch, leave, make_page
from tests.flushing import publish_curves
from tests.waiting import wait_until
from tests.webapp.interfaces.pages.conftest import make_run, model_folder, project, user  # noqa: F401 (fixtures)

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
expect.set_options(timeout=PATIENCE_MS)
BROWSERS = (
    "chromium-headless-shell",
    "chromium",
)  # the first draws no windows, which saves a quarter of the CPU
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 390, "height": 844}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in str(item.path):
            item.add_marker(pytest.mark.browser)
            if hasattr(item.module, "look"):
                item.add_marker(pytest.mark.long_form)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser. Meanwhile playwright runs an event loop in this thread, which Django has to be told is all right."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail("REQUIRE_BROWSER=1, but there is no chromium on the PATH")
        pytest.skip("no chromium on the PATH")
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests; no two use a context of it at the same time."""
    with launched() as browser:
        yield browser


@pytest.fixture
def open_context(chromium) -> Iterator[Callable[..., Page]]:
    """open_context(url, **options): a page on that server in a watched context of its own."""
    opened: list[Page] = []

    def make(url: str, **options) -> Page:
        page = make_page(chromium, url, **({"viewport": WIDE} | options))
        page.watch = Watch(page.context, url)
        opened.append(page)
        return page

    yield make
    for page in opened:
        page.context.close()
    for page in opened:
        page.watch.check()


@pytest.fixture(scope="session")
def free_pages(chromium, live_server, django_db_setup) -> Iterator[list[Page]]:
    """Pages on the tests' own server that no test uses now. To use one again saves the compiling of all scripts."""
    pages: list[Page] = []
    others = set(threading.enumerate())  # of servers of other tests, which end with the process
    yield pages
    for page in pages:
        page.context.close()
    with suppress(AssertionError):  # the server's threads end now, and with each a connection to the database
        wait_until(lambda: "process_request" not in str(set(threading.enumerate()) - others), seconds=5)


@pytest.fixture
def new_page(open_context, chromium, free_pages, live_server) -> Iterator[Callable[..., Page]]:
    """new_page(**context): a page on the tests' own server in a context without cookies and without anything stored;
    `page.watch` is its Watch.
    """
    used: list[Page] = []

    def reuse(viewport=WIDE, color_scheme="light") -> Page:
        page = free_pages.pop() if free_pages else make_page(chromium, live_server.url)
        used.append(page)
        page.watch = Watch(page.context, live_server.url)
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme)
        return page

    def make(*, signed_in=None, **options) -> Page:
        can_reuse = options.keys() <= {"viewport", "color_scheme"}
        page = reuse(**options) if can_reuse else open_context(live_server.url, **options)
        if signed_in is not None:
            page.context.add_cookies([session_cookie(signed_in, live_server.url)])
        return page

    yield make
    for page in used:
        if leave(page):
            free_pages.append(page)
        else:
            page.context.close()
    for page in used:
        page.watch.check()


def session_cookie(user, url: str):  # noqa: F811
    """The cookie of a session that is signed in already: one test signs in by hand, the others need not."""
    client = Client()
    client.force_login(user)
    return {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": url}


@pytest.fixture
def page(new_page, user) -> Page:  # noqa: F811
    """Ada's page, 1440 pixels wide."""
    return new_page(signed_in=user)


@pytest.fixture
def published_curves(transactional_db) -> None:
    """The published curves come by a migration; tests with real transactions empty the tables."""
    publish_curves()
