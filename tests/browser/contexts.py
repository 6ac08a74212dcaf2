"""Pages in contexts of their own, which are watched, and can be left for the next test as if they were new."""

from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Error, JSHandle, Page

PATIENCE_MS = 30_000  # a busy machine answers late; what never comes fails all the same
# The answer: whether a test has made up the page's clock, which lasts as long as its context.
FORGET = "() => { localStorage.clear(); sessionStorage.clear(); return '__pwClock' in globalThis; }"


class Watch:
    """What goes wrong in a context during a test: console errors, page errors, requests to elsewhere."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.expected: tuple[str, ...] = ()
        self._context = context
        self._host = urlsplit(url).netloc
        self._listeners = {
            "console": self._on_console,
            "weberror": self._on_error,
            "request": self._on_request,
        }
        for event, listener in self._listeners.items():
            context.on(event, listener)

    def _on_console(self, message) -> None:
        overtaken = message.text.startswith(
            ("htmx:sendAbort", "htmx:afterRequest")
        )  # by a click that went elsewhere
        if message.type == "error" and not overtaken:
            self.errors.append(f"{message.text} {message.location.get('url', '')}")

    def _on_error(self, error) -> None:
        self.errors.append(str(error.error))

    def _on_request(self, request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https") and parts.netloc != self._host:
            self.elsewhere.append(request.url)

    def expect(self, *words: str) -> None:
        """Errors with any of these words are part of the test."""
        self.expected = words

    def end(self) -> None:
        for event, listener in self._listeners.items():
            self._context.remove_listener(event, listener)

    def check(self) -> None:
        unexpected = [e for e in self.errors if not any(word in e for word in self.expected)]
        assert not unexpected, f"errors in the browser: {unexpected}"
        assert not self.elsewhere, f"requests left the server: {self.elsewhere}"


def make_page(browser: Browser, url: str, **options) -> Page:
    """A page on that server in a context of its own."""
    context = browser.new_context(base_url=url, **options)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.wait_for_function = under_a_strict_policy(page)
    page.on = noting_listeners(page)
    page.listeners = []
    return page


def under_a_strict_policy(page: Page) -> Callable[..., JSHandle]:
    """`wait_for_function` for expressions, too: Playwright evaluates them anew at each look, which our pages' policy
    forbids after the first; a function is evaluated once.
    """

    def wait(expression: str, **options) -> JSHandle:
        function = f"arg => {{ const found = ({expression}); return typeof found === 'function' ? found(arg) : found }}"
        return Page.wait_for_function(page, function, **options)

    return wait


def noting_listeners(page: Page) -> Callable[..., None]:
    """`on`, of which `leave` finds everything."""

    def on(event: str, listener: Callable) -> None:
        page.listeners.append((event, listener))
        Page.on(page, event, listener)

    return on


def sign_out(page: Page) -> None:
    """Through the menu of the account."""
    page.locator(".account-toggle").click()
    page.get_by_role("button", name="Sign out", exact=True).click()


def leave(page: Page) -> bool:
    """Empties the page and its context; whether nothing is left that another test could notice."""
    context = page.context
    try:
        context.set_offline(False)
        page.unroute_all()
        page.watch.end()
        while page.listeners:
            page.remove_listener(*page.listeners.pop())
        for other in context.pages:
            if other is not page:
                other.close()
        page.goto("/static/img/favicon.svg")
        is_as_new = not page.evaluate(FORGET)
        context.clear_cookies()
        page.emulate_media(media="null", forced_colors="null")
    except Error:
        return False
    return is_as_new
