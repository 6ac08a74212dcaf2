"""What can be said about the look without a browser: contrast of the tokens, error pages, how templates are written."""

import re
from pathlib import Path

import pytest
from django.template.loader import render_to_string

ROOT = Path(__file__).resolve().parents[4]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
TOKENS = {
    name: pair
    for name, *pair in re.findall(
        r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", (ROOT / "static/css/tokens.css").read_text()
    )
}
TEXT, MARK = 4.5, 3.0  # WCAG 2.2 AA: text, and what is not text
PAIRS = [
    *[
        (ink, paper, TEXT)
        for ink in ("ink", "ink-2", "ink-3", "accent")
        for paper in ("paper", "card", "sunk")
    ],
    *[(ink, f"{ink}-soft", TEXT) for ink in ("accent", "good", "warn", "bad")],
    ("on-accent", "accent", TEXT),
    ("on-accent", "bad", TEXT),
    *[(mark, "card", MARK) for mark in ("mark", "line-strong", "c1", "c2", "c3", "c4", "c5", "c6")],
]


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2) of #rrggbb."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground", "least"), PAIRS)
def test_contrast(ink, ground, least, theme):
    darker, lighter = sorted(luminance(TOKENS[name][theme]) for name in (ink, ground))

    assert (lighter + 0.05) / (darker + 0.05) >= least


@pytest.mark.parametrize("name", ["400.html", "403.html", "404.html", "500.html"])
def test_error_pages_need_nothing_but_themselves(name):
    page = render_to_string(name)

    assert "css/tokens.css" in page
    assert 'href="/"' in page


def test_lines_of_templates_fit_the_editor():
    texts = {str(path.relative_to(ROOT)): path.read_text().splitlines() for path in TEMPLATES}

    assert {name for name, lines in texts.items() if max(map(len, lines)) > 160} == set()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_no_inline_script_or_style_and_nothing_from_elsewhere(path):
    text = path.read_text()

    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    if path.name != "file.html":  # a report as one file brings its own rules
        assert not re.search(r"<style", text)
    assert not re.search(r"[\s\"'/]on\w+=|\bstyle=", text)
    assert not re.search(r"(src|href)=\"(https?:)?//", text)
