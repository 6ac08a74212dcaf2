"""Names with hashes, compressed files, caching for ever; and all of it optional."""

import gzip
import re

import brotli
import pytest
from django.contrib.staticfiles.storage import staticfiles_storage
from django.test import Client

from webapp.interfaces import assets
from webapp.interfaces.assets import collect_assets

HASHED = re.compile(r"\.[0-9a-f]{12}\.(js|css|svg|png|ico|map)$")
LINKED = re.compile(r"""(?:src|href)="(/static/[^"]+)\"""")
IMPORTED = re.compile(r"""\b(?:from|import)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""")
PLOTLY, PLOTLY_BYTES = "vendor/plotly-cartesian.min.js", 600_000  # compressed
SCRIPT_BYTES = 1_200_000


def test_without_collecting_pages_link_the_files_themselves():
    assert staticfiles_storage.url("js/shell.js") == "/static/js/shell.js"


def test_a_page_links_hashed_names_that_are_cached_for_ever(collected, db):
    client = Client()  # WhiteNoise reads the folder when the handler is made
    page = client.get("/sign-in").content.decode()

    links = LINKED.findall(page)
    assert links and all(HASHED.search(link) for link in links), links
    for link in links:
        response = client.get(link, headers={"accept-encoding": "br"})
        assert response.status_code == 200
        assert "immutable" in response.headers["Cache-Control"]
        assert int(re.search(r"max-age=(\d+)", response.headers["Cache-Control"])[1]) > 365 * 24 * 3600


def test_collected_files_are_for_their_owner_alone(collected):
    open_ones = [path.name for path in collected.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert open_ones == []


def test_modules_import_hashed_modules_that_exist(collected):
    modules = [path for path in (collected / "js").glob("*.js") if HASHED.search(path.name)]
    assert modules
    for module in modules:
        for imported in IMPORTED.findall(module.read_text()):
            assert HASHED.search(imported), f"{module.name} imports {imported}"
            assert (module.parent / imported).is_file()


def test_everything_that_templates_name_is_collected(collected, settings):
    named = {
        name
        for template in (settings.BASE_DIR / "templates").rglob("*.html")
        for name in re.findall(r"{% static '([^']+)' %}", template.read_text())
    }
    assert named
    for name in named:
        assert HASHED.search(staticfiles_storage.url(name)), name


def test_large_files_come_compressed(collected, db):
    client = Client()
    url = staticfiles_storage.url(PLOTLY)
    packed = client.get(url, headers={"accept-encoding": "gzip, br"})
    zipped = client.get(url, headers={"accept-encoding": "gzip"})

    assert packed.headers["Content-Encoding"] == "br" and zipped.headers["Content-Encoding"] == "gzip"
    one, other = b"".join(packed.streaming_content), b"".join(zipped.streaming_content)
    assert brotli.decompress(one) == gzip.decompress(other)
    assert len(one) < PLOTLY_BYTES


def test_all_scripts_of_all_pages_together_stay_small(collected):
    """Compressed with brotli: more than any one page loads."""
    files = list(collected.rglob("*.js.br")) + [
        path for path in collected.rglob("*.js") if not path.with_suffix(".js.br").exists()
    ]
    assert sum(path.stat().st_size for path in files) < SCRIPT_BYTES


def test_collecting_again_does_nothing(collected):
    assert collect_assets() is False


def test_a_changed_source_counts_as_not_collected(collected, monkeypatch):
    monkeypatch.setattr(assets, "sources_digest", lambda: "another")

    assert not assets.is_collected(collected)


@pytest.mark.parametrize("left_out", ["vendor/pinned.json", "django_htmx/htmax-4.js"])
def test_what_no_page_loads_is_left_out(collected, left_out):
    assert not (collected / left_out).exists()
