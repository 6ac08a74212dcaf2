"""Pages with their assets as a started stack serves them: hashed names, compressed, the prebuilt plotly.js."""

import threading

import pytest
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application

from tests.browser.charts import live
from tests.browser.conftest import session_cookie
from tests.webapp.interfaces.assets.conftest import collected, collected_folder  # noqa: F401 (fixtures)

TRACES = ("scatter", "bar", "box", "violin", "heatmap", "histogram", "histogram2d", "contour", "image")
DRAW_EACH = """async (types) => {
    const node = document.body.appendChild(document.createElement("div"));
    for (const type of types) {
        const grid = [[1, 2], [3, 4]];
        const values = type === "image" ? { z: [[[9, 9, 9], [0, 0, 0]]] } : { x: [1, 2, 3], y: [2, 1, 3], z: grid };
        await window.Plotly.react(node, [{ type, ...values }], {}, {});
        if (node._fullData[0].type !== type) return `${type} is drawn as ${node._fullData[0].type}`;
    }
    return "";
}"""


class _Quiet(WSGIRequestHandler):
    def log_message(self, *args) -> None:
        """Nothing: the tests' own output."""


@pytest.fixture
def collected_server(collected, transactional_db):  # noqa: F811
    """The URL of the whole application; Django's live server would serve the sources of the assets."""
    server = ThreadedWSGIServer(("127.0.0.1", 0), _Quiet)
    server.daemon_threads = True
    server.set_app(get_wsgi_application())
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_charts_are_drawn_by_hashed_scripts(open_context, collected_server, user, make_run):
    run = make_run(30)
    page = open_context(collected_server)
    page.context.add_cookies([session_cookie(user, collected_server)])
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))

    page.goto(f"/runs/{run.pk}")
    live(page)

    scripts = [url for url in loaded if url.endswith(".js")]
    assert any("plotly" in url for url in scripts)
    assert all(len(url.rsplit(".", 2)[1]) == 12 for url in scripts), scripts
    assert page.evaluate(DRAW_EACH, TRACES) == ""
    page.close()  # it would go on asking after its session is gone
