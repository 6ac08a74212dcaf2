"""The docs' site in a real browser, served from its folder: figures, search, and no request that leaves the host."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.docs.building import build


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args) -> None:
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    folder = build(tmp_path_factory.mktemp("docs") / "site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.deep
def test_each_figure_of_the_science_is_drawn(open_context, address):
    page = open_context(address)
    page.goto("/science.html")

    expect(page.locator(".figure .main-svg").first).to_be_visible()
    figures = page.locator(".figure")
    assert figures.count() == 5
    for number in range(5):
        expect(figures.nth(number).locator(".scatterlayer .trace").first).to_be_attached()


@pytest.mark.deep
def test_the_search_finds_a_setting(open_context, address):
    page = open_context(address)
    page.goto("/index.html")
    page.get_by_role("textbox", name="Search").fill("HEADROOM_IMPORT_KEEP_DAYS")

    expect(page.locator(".md-search-result__link").first).to_be_visible()
