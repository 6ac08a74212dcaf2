"""The site that `make docs` builds: whole, from this host alone, with the reference that the code gives."""

import base64
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import scaling
from scaling.plot import ceiling_text
from tests.docs.building import build
from tests.docs.pages import ROOT, tokens

ASSETS = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "use": "href",
}
COUNTED = ("table", "li", "pre", "th")
OF_MARKDOWN = {
    "table_open": "table",
    "list_item_open": "li",
    "fence": "pre",
    "code_block": "pre",
    "th_open": "th",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("docs") / "site")


class Read(HTMLParser):
    """Addresses of what a page loads, and how many of the counted elements its article has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.assets: list[str] = []
        self.elements: Counter[str] = Counter()
        self.classes: set[str] = set()
        self._in_article = False
        self.feed(text)

    def handle_starttag(self, tag, attributes) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag in ASSETS and given.get(ASSETS[tag]) and given.get("rel") != "canonical":
            self.assets.append(given[ASSETS[tag]])
        self.classes |= set(given.get("class", "").split())
        self._in_article |= tag == "article"
        if self._in_article and tag in COUNTED:
            self.elements[tag] += 1

    def handle_endtag(self, tag) -> None:
        self._in_article &= tag != "article"


def test_no_page_loads_anything_from_another_host(site):
    pages = sorted(site.rglob("*.html"))
    elsewhere = [
        f"{page.relative_to(site)}: {asset}"
        for page in pages
        for asset in Read(page.read_text()).assets
        if urlsplit(asset).netloc or urlsplit(asset).scheme not in ("", "data")
    ]

    assert len(pages) > 40
    assert elsewhere == []


def test_no_stylesheet_loads_anything_from_another_host(site):
    sheets = sorted(site.rglob("*.css"))

    assert sheets
    for sheet in sheets:
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\s]*", sheet.read_text()) == [], (
            sheet.name
        )


def test_no_page_has_a_diagram_for_which_the_theme_would_ask_a_cdn(site):
    assert not any("mermaid" in Read(page.read_text()).classes for page in site.rglob("*.html"))


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_tables_lists_and_blocks_are_those_of_the_page_in_the_repository(site, page):
    """Python-Markdown wants blank lines and indents where GitHub does not: what it misses would be lost text."""
    wanted = Counter(OF_MARKDOWN[token.type] for token in tokens(page) if token.type in OF_MARKDOWN)
    read = Read((site / page.relative_to(ROOT / "docs").with_suffix(".html")).read_text())

    assert {name: read.elements[name] for name in COUNTED} == {name: wanted[name] for name in COUNTED}


def test_the_command_line_has_every_command_and_option_of_ours(site):
    text = (site / "reference/cli.html").read_text()
    commands = {path.stem for path in ROOT.glob("webapp/**/management/commands/[a-z]*.py")}

    assert commands >= {"up", "demo", "doctor", "backup", "create_token"}
    assert {name for name in commands if f">manage.py {name}<" not in text} == set()
    for words in (
        "headroom sync",
        "headroom import",
        "headroom tail",
        "training run",
        "scaling fit",
        "scaling plan",
    ):
        assert f">{words}<" in text
    for option in ("--no-ray", "--leave-one-out", "--dry-run", "--resume", "--c-mid", "--until-idle"):
        assert f"<code>{option}</code>" in text


def test_the_api_has_every_operation_of_the_openapi_document(site):
    from webapp.interfaces.api.api import api

    text = (site / "reference/api.html").read_text()
    document = api.get_openapi_schema(path_prefix="/api/v1/")
    operations = [f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found]

    assert len(operations) > 50
    assert [each for each in operations if f">{each}<" not in text] == []


def test_the_schema_has_every_field_of_a_recipe(site):
    from training.schema import Recipe

    text = (site / "reference/recipe.html").read_text()
    sections = {
        name: getattr(field.annotation, "model_fields", None) for name, field in Recipe.model_fields.items()
    }
    names = {
        f"{name}.{leaf}" if fields else name for name, fields in sections.items() for leaf in fields or [""]
    }

    assert len(names) > 80
    assert {name for name in names if f"<code>{name}</code>" not in text} == set()


def test_the_figures_are_those_that_the_fits_give(site):
    text = (site / "science.html").read_text()
    found = dict(re.findall(r'data-figure="figure-(\w+)">(.*?)</script>', text))
    drawn = json.loads(found["half"])["data"][0]
    refitted = scaling.fit(numbers(drawn["x"]), numbers(drawn["y"]))

    assert set(found) == {"law", "half", "early", "forms", "forecasts"}
    assert refitted.status == "ok"
    assert f"fitted: {ceiling_text(refitted)}" in text
    assert "not identified: A is at least" in text
    assert (site / "assets" / "plotly.min.js").stat().st_size > 1_000_000


def numbers(column: list | dict) -> np.ndarray:
    """Plotly writes arrays of numbers as base64."""
    return np.frombuffer(base64.b64decode(column["bdata"])) if isinstance(column, dict) else np.array(column)
