"""A real Chromium on a real server (Django's live server on the tests' PostgreSQL).

Without a Chromium the tests are skipped, or fail where REQUIRE_BROWSER=1. Every page is watched: an error on its
console, or a request that leaves the server, fails the test.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from urllib.parse import urlsplit

import pytest
from django.apps import apps
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, JSHandle, Page, expect, sync_playwright

from tests.webapp.pages.conftest import make_run, model_folder, project, user  # noqa: F401 (fixtures)

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE_MS = 30_000  # a busy machine answers late; what never comes fails all the same
expect.set_options(timeout=PATIENCE_MS)
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 390, "height": 844}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in str(item.path):
            item.add_marker(pytest.mark.browser)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser. Meanwhile playwright runs an event loop in this thread, which Django has to be told is all right."""
    path = shutil.which("chromium")
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
    """One browser for all tests; each test has a context of its own."""
    with launched() as browser:
        yield browser


class Watch:
    """What went wrong in a context: console errors, page errors, requests to elsewhere."""

    def __init__(self, context: BrowserContext, host: str) -> None:
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.expected: tuple[str, ...] = ()
        self._host = host
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("request", self._on_request)

    def _on_console(self, message) -> None:
        overtaken = message.text.startswith(
            ("htmx:sendAbort", "htmx:afterRequest")
        )  # by a click that went elsewhere
        if message.type == "error" and not overtaken:
            self.errors.append(f"{message.text} {message.location.get('url', '')}")

    def _on_request(self, request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https") and parts.netloc != self._host:
            self.elsewhere.append(request.url)

    def expect(self, *words: str) -> None:
        """Errors with any of these words are part of the test."""
        self.expected = words

    def check(self) -> None:
        unexpected = [e for e in self.errors if not any(word in e for word in self.expected)]
        assert not unexpected, f"errors in the browser: {unexpected}"
        assert not self.elsewhere, f"requests left the server: {self.elsewhere}"


@pytest.fixture
def open_context(chromium) -> Iterator[Callable[..., Page]]:
    """open_context(url, **options): a page on that server in a watched context of its own."""
    opened: list[tuple[BrowserContext, Watch]] = []

    def make(url: str, **options) -> Page:
        context = chromium.new_context(base_url=url, **({"viewport": WIDE} | options))
        context.set_default_timeout(PATIENCE_MS)
        opened.append((context, Watch(context, urlsplit(url).netloc)))
        page = context.new_page()
        page.wait_for_function = under_a_strict_policy(page)  # type: ignore[method-assign]
        page.watch = opened[-1][1]  # type: ignore[attr-defined]
        return page

    yield make
    for context, _ in opened:
        context.close()
    for _, watch in opened:
        watch.check()


def under_a_strict_policy(page: Page) -> Callable[..., JSHandle]:
    """`wait_for_function` for expressions, too: Playwright evaluates them anew at each look, which our pages' policy
    forbids after the first; a function is evaluated once.
    """

    def wait(expression: str, **options) -> JSHandle:
        function = f"arg => {{ const found = ({expression}); return typeof found === 'function' ? found(arg) : found }}"
        return Page.wait_for_function(page, function, **options)

    return wait


@pytest.fixture
def new_page(open_context, live_server) -> Callable[..., Page]:
    """new_page(**context): a page on the tests' own server; `page.watch` is its Watch."""

    def make(*, signed_in=None, **options) -> Page:
        page = open_context(live_server.url, **options)
        if signed_in is not None:
            page.context.add_cookies([session_cookie(signed_in, live_server.url)])
        return page

    return make


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
    import_module("webapp.curves.migrations.0002_published_curves").add(apps, None)
